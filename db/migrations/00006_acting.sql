-- One configuration acts per provisioner. Workers announce a digest of each that they have; the empty one is that of workers
-- which announce none, from before there were any.

-- +goose Up

ALTER TABLE berth.workers
    ADD COLUMN digests text[] NOT NULL DEFAULT '{}',  -- of its configurations, in the order of provisioners
    ADD COLUMN default_provisioner text;              -- that it has configured; NULL: it leaves the default as it is
ALTER TABLE berth.provisioners
    ADD COLUMN digest text NOT NULL DEFAULT '',       -- of the configuration that acts
    ADD COLUMN acts_since timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN rolled_at timestamptz,                 -- when places were last brought to it; NULL = all are
    ADD COLUMN rolled_to uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'; -- and up to which
ALTER TABLE berth.provisioner_resources
    ADD COLUMN digest text NOT NULL DEFAULT '';       -- of the configuration that the last outcome was made under

-- Whether a worker that lives, or did so lately, announces a configuration. VOLATILE, so that what decides is never older than a
-- lock that was waited for.
-- +goose StatementBegin
CREATE FUNCTION berth.announced(p text, d text, lately interval) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN
    RETURN EXISTS (SELECT FROM berth.workers w WHERE w.alive_until > clock_timestamp() - lately
        AND p = ANY (w.provisioners) AND coalesce(w.digests[array_position(w.provisioners, p)], '') = d);
END $$;
-- +goose StatementEnd

-- A claim needs the configuration that acts: that of others is nothing to do. The function is replaced in place, so that what old
-- workers prepared finds it too; what it was goes on under another name.
-- +goose StatementBegin
DO $$ BEGIN
    EXECUTE replace(pg_get_functiondef('berth.claim'::regproc), 'FUNCTION berth.claim(', 'FUNCTION berth.claim_any(');
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION berth.claim(ids uuid[], provisioners text[], fences uuid[], worker uuid, lease interval, alive interval, take_over boolean, spread interval)
RETURNS SETOF berth.claimed LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(n.id), array_agg(n.provisioner), array_agg(n.fence) INTO ids, provisioners, fences
    FROM ROWS FROM (unnest(ids), unnest(provisioners), unnest(fences)) AS n (id, provisioner, fence)
    JOIN berth.provisioners v ON v.name = n.provisioner
    LEFT JOIN berth.workers w ON w.id = worker
    WHERE v.digest = coalesce(w.digests[array_position(w.provisioners, v.name)], '');
    RETURN QUERY SELECT * FROM berth.claim_any(ids, provisioners, fences, worker, lease, alive, take_over, spread);
END $$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
DO $$ BEGIN
    EXECUTE replace(pg_get_functiondef('berth.claim_any'::regproc), 'FUNCTION berth.claim_any(', 'FUNCTION berth.claim(');
END $$;
-- +goose StatementEnd
DROP FUNCTION berth.claim_any(uuid[], text[], uuid[], uuid, interval, interval, boolean, interval);
DROP FUNCTION berth.announced(text, text, interval);
ALTER TABLE berth.provisioner_resources DROP COLUMN digest;
ALTER TABLE berth.provisioners DROP COLUMN digest, DROP COLUMN acts_since, DROP COLUMN rolled_at, DROP COLUMN rolled_to;
ALTER TABLE berth.workers DROP COLUMN digests, DROP COLUMN default_provisioner;
