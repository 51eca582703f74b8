-- What is planned once a session instead of at every call. A function in SQL is planned at each, one in PL/pgSQL once: a fifth of a
-- claim was the planning of berth.blocked.

-- +goose Up

-- Making a place deletes its tombstone, whoever makes it: a sweep would take it for leave to delete what is made now.
-- +goose StatementBegin
CREATE FUNCTION berth.forget_deleted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM berth.deleted_resources t WHERE t.id = NEW.id AND t.provisioner = NEW.provisioner;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER provisioner_resources_forget_deleted AFTER INSERT ON berth.provisioner_resources
    FOR EACH ROW EXECUTE FUNCTION berth.forget_deleted();

-- Whether a place has to wait for another of its resource to go. A debt blocks nothing.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION berth.blocked(i uuid, p text, desired text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$ BEGIN
    RETURN desired <> 'absent' AND EXISTS (SELECT FROM berth.provisioner_resources s
        WHERE s.id = i AND s.provisioner <> p AND s.desired_phase = 'absent' AND s.deployment_id IS NOT NULL);
END $$;
-- +goose StatementEnd

-- +goose Down

DROP TRIGGER provisioner_resources_forget_deleted ON berth.provisioner_resources;
DROP FUNCTION berth.forget_deleted();

CREATE OR REPLACE FUNCTION berth.blocked(i uuid, p text, desired text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT desired <> 'absent' AND EXISTS (SELECT FROM berth.provisioner_resources s
        WHERE s.id = i AND s.provisioner <> p AND s.desired_phase = 'absent' AND s.deployment_id IS NOT NULL)
$$;
