-- Static pools: hosts with slots, who holds how many, and who waits. Postgres 15.
--
-- What holds, whoever writes (psql included):
--   used = sum of what is held on the host, and never grows past its slots
--   nothing is held for a place that is not listed in provisioner_resources
-- What holds among those who use the functions below:
--   nobody is served before one who came earlier and could use the same host
--   a run that lost its lease changes nothing (SQLSTATE BR001)
--
-- Locks, in this order, each until the end of the transaction:
--   1. the resource (advisory)
--   2. its place, FOR KEY SHARE: so that the foreign key never waits while 3 is held
--   3. the pool (advisory): everything but a spread take into a pool where nobody waits
--   4. a host (advisory): that spread take alone, and one of them at most
--   5. rows of static_slots, then of static_runtimes
-- Who holds 4 waits for nothing but 3 and 5; who holds 3 never asks for 4; who holds 5 waits for nothing but more of 5, and
-- that only under 3. So there is no cycle. Call these functions in transactions of their own.

-- +goose Up

-- The hosts of the pools. A host that left the configuration keeps its row: what lives there still needs its address.
CREATE TABLE berth.static_runtimes (
    provisioner     text NOT NULL CONSTRAINT static_runtimes_provisioner_fkey REFERENCES berth.provisioners,
    host            text NOT NULL,                -- normalised, so that two spellings are one host
    url             text NOT NULL,                -- as configured
    audience        text NOT NULL,
    data_dir        text NOT NULL,
    slots           int  NOT NULL,
    used            int  NOT NULL DEFAULT 0,      -- owned by the trigger static_slots_count, never written elsewhere
    failed_pings    int  NOT NULL DEFAULT 0,      -- in a row
    unhealthy_since timestamptz,                  -- failed pings closed it
    cordoned_at     timestamptz,                  -- a person closed it
    removed_at      timestamptz,                  -- no longer in the configuration: keeps what it has, takes no more
    open            boolean NOT NULL GENERATED ALWAYS AS (unhealthy_since IS NULL AND cordoned_at IS NULL AND removed_at IS NULL) STORED,
    CONSTRAINT static_runtimes_pkey PRIMARY KEY (provisioner, host),
    CONSTRAINT static_runtimes_counts CHECK (slots >= 1 AND used >= 0 AND failed_pings >= 0)
) WITH (fillfactor = 20);                         -- hot rows: keep every update on its page

CREATE SEQUENCE berth.static_tickets;             -- order of arrival, of all pools

-- What a resource holds and what it waits for, one row per resource and pool. Waiting for a first place: no host, no slots.
-- Waiting to grow: more wanted than held.
CREATE TABLE berth.static_slots (
    resource_id uuid NOT NULL,
    provisioner text NOT NULL,
    host        text,                             -- guarded by triggers: a foreign key would share-lock the hot row
    slots       int  NOT NULL,                    -- held
    wanted      int  NOT NULL,
    ticket      bigint,                           -- set while it waits
    CONSTRAINT static_slots_pkey PRIMARY KEY (resource_id, provisioner),
    CONSTRAINT static_slots_place_fkey FOREIGN KEY (resource_id, provisioner)
        REFERENCES berth.provisioner_resources (id, provisioner) ON DELETE RESTRICT,
    CONSTRAINT static_slots_form CHECK (slots >= 0 AND wanted >= 1 AND wanted >= slots
        AND (host IS NULL) = (slots = 0) AND (ticket IS NULL) = (wanted = slots))
);
CREATE UNIQUE INDEX static_slots_waiting_idx ON berth.static_slots (provisioner, ticket) WHERE ticket IS NOT NULL;

-- used = sum(slots), for every writer. Shrinking is always allowed, so slots may be lowered in the configuration below what is
-- in use; a plain CHECK (used <= slots) would make that change fail.
-- +goose StatementBegin
CREATE FUNCTION berth.static_slots_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.host = OLD.host AND NEW.provisioner = OLD.provisioner THEN
        UPDATE berth.static_runtimes SET used = used + NEW.slots - OLD.slots
        WHERE provisioner = NEW.provisioner AND host = NEW.host
          AND (NEW.slots <= OLD.slots OR slots - used >= NEW.slots - OLD.slots);
        IF FOUND THEN RETURN NULL; END IF;
    ELSE
        IF TG_OP <> 'INSERT' AND OLD.host IS NOT NULL THEN
            UPDATE berth.static_runtimes SET used = used - OLD.slots
            WHERE provisioner = OLD.provisioner AND host = OLD.host;
        END IF;
        IF TG_OP = 'DELETE' OR NEW.host IS NULL THEN RETURN NULL; END IF;
        UPDATE berth.static_runtimes SET used = used + NEW.slots
        WHERE provisioner = NEW.provisioner AND host = NEW.host AND slots - used >= NEW.slots;
        IF FOUND THEN RETURN NULL; END IF;
    END IF;
    RAISE EXCEPTION 'static runtime % has no room for % slots', NEW.host, NEW.slots
        USING ERRCODE = 'check_violation', SCHEMA = 'berth', TABLE = 'static_runtimes', CONSTRAINT = 'static_runtimes_has_room';
END $$;
-- +goose StatementEnd
CREATE TRIGGER static_slots_count AFTER INSERT OR DELETE OR UPDATE OF host, slots, provisioner ON berth.static_slots
    FOR EACH ROW EXECUTE FUNCTION berth.static_slots_count();

-- The row of a host stays while something is held there.
-- +goose StatementBegin
CREATE FUNCTION berth.static_runtimes_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.used > 0 AND (TG_OP = 'DELETE' OR NEW.host <> OLD.host OR NEW.provisioner <> OLD.provisioner) THEN
        RAISE EXCEPTION 'static runtime % holds % slots', OLD.host, OLD.used
            USING ERRCODE = 'foreign_key_violation', SCHEMA = 'berth', TABLE = 'static_runtimes', CONSTRAINT = 'static_runtimes_in_use';
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
-- +goose StatementEnd
CREATE TRIGGER static_runtimes_keep BEFORE DELETE OR UPDATE OF host, provisioner ON berth.static_runtimes
    FOR EACH ROW EXECUTE FUNCTION berth.static_runtimes_keep();

-- What a resource has in a pool, and what the call that says so brought about beside it. No host: it holds nothing. More
-- wanted than slots: it waits. largest is set when no listed host has so many slots at all: then nothing waits.
CREATE TYPE berth.static_place AS (
    host         text,
    url          text,
    audience     text,
    data_dir     text,
    slots        int,
    wanted       int,
    failed_pings int,
    unhealthy    boolean,
    largest      int,
    served       uuid[]      -- others who got room: wake them
);

-- +goose StatementBegin
CREATE FUNCTION berth.static_place(p text, r uuid) RETURNS berth.static_place LANGUAGE sql STABLE AS $$
    SELECT o.host, o.url, o.audience, o.data_dir, coalesce(s.slots, 0), coalesce(s.wanted, 0), coalesce(o.failed_pings, 0),
        o.unhealthy_since IS NOT NULL, NULL::int, '{}'::uuid[]
    FROM (VALUES (r)) AS v (id)
    LEFT JOIN berth.static_slots s ON s.resource_id = v.id AND s.provisioner = p
    LEFT JOIN berth.static_runtimes o ON o.provisioner = s.provisioner AND o.host = s.host
$$;
-- +goose StatementEnd

-- Refuses a run that lost its lease. Called with the resource's advisory lock held and in a statement of its own: a later run
-- of the resource either sees what this one did, or has changed the fence before this look.
-- +goose StatementBegin
CREATE FUNCTION berth.static_fence(p text, r uuid, f uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM berth.provisioner_resources x WHERE x.id = r AND x.provisioner = p AND x.fence = f FOR KEY SHARE;
    IF NOT FOUND THEN RAISE EXCEPTION 'the lease on % is lost', r USING ERRCODE = 'BR001'; END IF;
END $$;
-- +goose StatementEnd

-- Matches free room to those who wait, in order of arrival. Who is not served keeps every host it could ever use from those
-- behind it: a first place all open hosts that are large enough, a growth its own host. So nobody overtakes to the harm of
-- another, a large request is never starved by small ones, and one that fits no open host holds nobody up. Returns whom it
-- served: wake them.
-- +goose StatementBegin
CREATE FUNCTION berth.static_assign(p text, pack boolean) RETURNS uuid[] LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    w record;
    h text;
    smallest int;
    largest int;
    kept int;                 -- open hosts of at least this many slots are kept for somebody,
    own text[] := '{}';       -- and so are these
    served uuid[] := '{}';
BEGIN
    PERFORM FROM berth.static_slots s WHERE s.provisioner = p AND s.ticket IS NOT NULL LIMIT 1;
    IF NOT FOUND THEN RETURN served; END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(p, 2));
    SELECT min(o.slots), max(o.slots) INTO smallest, largest FROM berth.static_runtimes o WHERE o.provisioner = p AND o.open;
    kept := 2147483647;
    FOR w IN SELECT s.resource_id, s.host, s.slots, s.wanted, o.slots AS size FROM berth.static_slots s
             LEFT JOIN berth.static_runtimes o ON o.provisioner = s.provisioner AND o.host = s.host
             WHERE s.provisioner = p AND s.ticket IS NOT NULL
               AND CASE WHEN s.host IS NULL THEN s.wanted <= largest ELSE o.open AND s.wanted <= o.slots END
             ORDER BY s.ticket LOOP
        EXIT WHEN kept <= smallest;
        IF w.host IS NULL THEN
            CONTINUE WHEN w.wanted >= kept;
            SELECT o.host INTO h FROM berth.static_runtimes o
            WHERE o.provisioner = p AND o.open AND o.slots - o.used >= w.wanted AND o.slots < kept AND o.host <> ALL (own)
            ORDER BY CASE WHEN pack THEN o.slots - o.used ELSE o.used::float8 / o.slots END, o.host LIMIT 1 FOR NO KEY UPDATE;
            IF h IS NULL THEN
                kept := w.wanted;
                CONTINUE;
            END IF;
        ELSE
            CONTINUE WHEN w.size >= kept OR w.host = ANY (own);
            SELECT o.host INTO h FROM berth.static_runtimes o
            WHERE o.provisioner = p AND o.host = w.host AND o.open AND o.slots - o.used >= w.wanted - w.slots FOR NO KEY UPDATE;
            IF h IS NULL THEN
                own := own || w.host;
                CONTINUE;
            END IF;
        END IF;
        UPDATE berth.static_slots s SET host = h, slots = s.wanted, ticket = NULL WHERE s.resource_id = w.resource_id AND s.provisioner = p;
        served := served || w.resource_id;
    END LOOP;
    RETURN served;
END $$;
-- +goose StatementEnd

-- Takes n slots for r, or waits for them. Repeat-safe: what is held is returned; another n shrinks at once, and grows in place
-- or waits to. What is held on a host that failed its pings, and is not the one on which r was ready, is given back.
-- +goose StatementBegin
CREATE FUNCTION berth.static_take(p text, r uuid, f uuid, n int, pack boolean, ready_on text) RETURNS berth.static_place
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    a berth.static_place;
    done text;
    held boolean;
BEGIN
    done := pg_advisory_xact_lock(uuid_hash_extended(r, 1));
    SELECT x.fence = f, o.host, o.url, o.audience, o.data_dir, s.slots, s.wanted, o.failed_pings, o.unhealthy_since IS NOT NULL
    INTO held, a.host, a.url, a.audience, a.data_dir, a.slots, a.wanted, a.failed_pings, a.unhealthy
    FROM berth.provisioner_resources x
    LEFT JOIN berth.static_slots s ON s.resource_id = x.id AND s.provisioner = x.provisioner
    LEFT JOIN berth.static_runtimes o ON o.provisioner = s.provisioner AND o.host = s.host
    WHERE x.id = r AND x.provisioner = p;
    IF held IS NOT TRUE THEN RAISE EXCEPTION 'the lease on % is lost', r USING ERRCODE = 'BR001'; END IF;
    a.served := '{}';
    IF a.slots = n AND a.wanted = n AND (NOT a.unhealthy OR a.host = ready_on) THEN RETURN a; END IF;

    IF a.slots IS NULL AND NOT pack THEN
        -- The shares used may differ by one request of this size, or by one in a hundred. Among the hosts that are no further
        -- ahead one is drawn, and asked again once nobody else puts anything there: many who look at once do not all end on
        -- the host that was emptiest when they looked, and do not all queue for one row.
        SELECT c.host, c.url, c.audience, c.data_dir, n, n, c.failed_pings, false
        INTO a.host, a.url, a.audience, a.data_dir, a.slots, a.wanted, a.failed_pings, a.unhealthy
        FROM berth.static_runtimes c
        WHERE c.provisioner = p AND c.open AND c.slots - c.used >= n
          AND (c.used - n) * 100::bigint / c.slots <= (SELECT min(o.used * 100::bigint / o.slots) FROM berth.static_runtimes o
                                              WHERE o.provisioner = p AND o.open AND o.slots - o.used >= n)
        ORDER BY random() LIMIT 1;
        IF FOUND THEN
            done := pg_advisory_xact_lock(hashtextextended(p || ' ' || a.host, 3));
            INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted)
            SELECT r, p, c.host, n, n FROM berth.static_runtimes c
            WHERE c.provisioner = p AND c.host = a.host AND c.open AND c.slots - c.used >= n
              AND (c.used - n) * 100::bigint / c.slots <= (SELECT min(o.used * 100::bigint / o.slots) FROM berth.static_runtimes o
                                                  WHERE o.provisioner = p AND o.open AND o.slots - o.used >= n)
              AND NOT EXISTS (SELECT FROM berth.static_slots s WHERE s.provisioner = p AND s.ticket IS NOT NULL);
            IF FOUND THEN RETURN a; END IF;
        END IF;
    END IF;
    RETURN berth.static_queue(p, r, f, n, pack, ready_on);
END $$;
-- +goose StatementEnd

-- The rest of static_take: whatever needs the pool's lock.
-- +goose StatementBegin
CREATE FUNCTION berth.static_queue(p text, r uuid, f uuid, n int, pack boolean, ready_on text) RETURNS berth.static_place
LANGUAGE plpgsql AS $$
DECLARE
    a berth.static_place;
    served uuid[];
    most int;
BEGIN
    PERFORM berth.static_fence(p, r, f);
    PERFORM pg_advisory_xact_lock(hashtextextended(p, 2));
    a := berth.static_place(p, r);
    IF a.unhealthy AND a.host IS DISTINCT FROM ready_on THEN
        DELETE FROM berth.static_slots s WHERE s.resource_id = r AND s.provisioner = p;
        a := berth.static_place(p, r);
    END IF;
    IF a.wanted = 0 THEN
        SELECT o.host INTO a.host FROM berth.static_runtimes o
        WHERE o.provisioner = p AND o.open AND o.slots - o.used >= n
          AND NOT EXISTS (SELECT FROM berth.static_slots s WHERE s.provisioner = p AND s.ticket IS NOT NULL)
        ORDER BY CASE WHEN pack THEN o.slots - o.used ELSE o.used::float8 / o.slots END, CASE WHEN NOT pack THEN random() END, o.host
        LIMIT 1 FOR NO KEY UPDATE;
        IF FOUND THEN
            INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted) VALUES (r, p, a.host, n, n);
            RETURN berth.static_place(p, r);
        END IF;
    END IF;
    SELECT coalesce(max(o.slots), 0) INTO most FROM berth.static_runtimes o WHERE o.provisioner = p AND o.removed_at IS NULL;
    IF n > most AND n > a.slots THEN
        DELETE FROM berth.static_slots s WHERE s.resource_id = r AND s.provisioner = p AND s.host IS NULL;
        UPDATE berth.static_slots s SET wanted = s.slots, ticket = NULL WHERE s.resource_id = r AND s.provisioner = p;
    ELSE
        most := NULL;
        IF a.wanted = 0 THEN
            INSERT INTO berth.static_slots (resource_id, provisioner, slots, wanted, ticket) VALUES (r, p, 0, n, nextval('berth.static_tickets'));
        ELSIF n <= a.slots THEN
            UPDATE berth.static_slots s SET slots = n, wanted = n, ticket = NULL WHERE s.resource_id = r AND s.provisioner = p;
        ELSIF n <> a.wanted THEN   -- who changes its mind while it waits keeps its turn
            UPDATE berth.static_slots s SET wanted = n, ticket = coalesce(s.ticket, nextval('berth.static_tickets'))
            WHERE s.resource_id = r AND s.provisioner = p;
        END IF;
    END IF;
    served := berth.static_assign(p, pack);
    a := berth.static_place(p, r);
    a.largest := most;
    a.served := array_remove(served, r);
    RETURN a;
END $$;
-- +goose StatementEnd

-- Gives back what r holds and its place in the queue, or with keep only the latter, and serves those who wait. Repeat-safe.
-- +goose StatementBegin
CREATE FUNCTION berth.static_release(p text, r uuid, f uuid, keep boolean, pack boolean) RETURNS berth.static_place
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    a berth.static_place;
    served uuid[];
BEGIN
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(r, 1));
    PERFORM berth.static_fence(p, r, f);
    a := berth.static_place(p, r);
    IF a.wanted = 0 OR keep AND a.wanted = a.slots THEN RETURN a; END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(p, 2));
    DELETE FROM berth.static_slots s WHERE s.resource_id = r AND s.provisioner = p AND (s.host IS NULL OR NOT keep);
    UPDATE berth.static_slots s SET wanted = s.slots, ticket = NULL WHERE s.resource_id = r AND s.provisioner = p AND s.ticket IS NOT NULL;
    served := berth.static_assign(p, pack);
    a := berth.static_place(p, r);
    a.served := served;
    RETURN a;
END $$;
-- +goose StatementEnd

-- Writes the hosts of a configuration, [{host, url, audience, data_dir, slots}], and serves those who wait. Repeat-safe. What
-- is no longer listed keeps what it has; what is listed again takes new ones again.
-- +goose StatementBegin
CREATE FUNCTION berth.static_declare(p text, hosts jsonb, pack boolean) RETURNS uuid[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p, 2));
    INSERT INTO berth.static_runtimes AS o (provisioner, host, url, audience, data_dir, slots)
    SELECT p, c.host, c.url, c.audience, c.data_dir, c.slots
    FROM jsonb_to_recordset(hosts) AS c (host text, url text, audience text, data_dir text, slots int) ORDER BY c.host
    ON CONFLICT ON CONSTRAINT static_runtimes_pkey DO UPDATE
    SET url = EXCLUDED.url, audience = EXCLUDED.audience, data_dir = EXCLUDED.data_dir, slots = EXCLUDED.slots, removed_at = NULL
    WHERE (o.url, o.audience, o.data_dir, o.slots) IS DISTINCT FROM (EXCLUDED.url, EXCLUDED.audience, EXCLUDED.data_dir, EXCLUDED.slots)
       OR o.removed_at IS NOT NULL;
    UPDATE berth.static_runtimes o SET removed_at = now()
    WHERE o.provisioner = p AND o.removed_at IS NULL
      AND NOT EXISTS (SELECT FROM jsonb_to_recordset(hosts) AS c (host text) WHERE c.host = o.host);
    RETURN berth.static_assign(p, pack);
END $$;
-- +goose StatementEnd

-- Tells how a ping of a host went. So many failures in a row close it to new ones; one success opens it, and serves those who
-- wait. A success needs to be told only of a host that is known to have failed.
-- +goose StatementBegin
CREATE FUNCTION berth.static_report(p text, h text, answered boolean, failures int, pack boolean) RETURNS uuid[] LANGUAGE plpgsql AS $$
BEGIN
    IF answered THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(p, 2));
        UPDATE berth.static_runtimes o SET failed_pings = 0, unhealthy_since = NULL
        WHERE o.provisioner = p AND o.host = h AND (o.failed_pings > 0 OR o.unhealthy_since IS NOT NULL);
        IF FOUND THEN RETURN berth.static_assign(p, pack); END IF;
    ELSE
        UPDATE berth.static_runtimes o SET failed_pings = o.failed_pings + 1,
            unhealthy_since = CASE WHEN o.failed_pings + 1 >= failures THEN clock_timestamp() END
        WHERE o.provisioner = p AND o.host = h AND o.unhealthy_since IS NULL;
    END IF;
    RETURN '{}';
END $$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION berth.static_report(text, text, boolean, int, boolean);
DROP FUNCTION berth.static_declare(text, jsonb, boolean);
DROP FUNCTION berth.static_release(text, uuid, uuid, boolean, boolean);
DROP FUNCTION berth.static_queue(text, uuid, uuid, int, boolean, text);
DROP FUNCTION berth.static_take(text, uuid, uuid, int, boolean, text);
DROP FUNCTION berth.static_assign(text, boolean);
DROP FUNCTION berth.static_fence(text, uuid, uuid);
DROP FUNCTION berth.static_place(text, uuid);
DROP TYPE berth.static_place;
DROP TABLE berth.static_slots;
DROP SEQUENCE berth.static_tickets;
DROP TABLE berth.static_runtimes;
DROP FUNCTION berth.static_runtimes_keep();
DROP FUNCTION berth.static_slots_count();
