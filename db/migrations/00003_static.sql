-- Static pools: hosts with slots, who holds how many, and who waits. Postgres 15.
--
-- What holds, whoever writes (psql included):
--   used = sum of what is held on the host, and never grows past its slots
--   nothing is held for a place that is not listed in provisioner_resources
-- What holds among those who use the functions below:
--   nobody is served before one who came earlier and could use the same host
--   a run that lost its lease changes nothing
--
-- Locks, in this order, each until the end of the transaction:
--   1. the resources (advisory, in one order)
--   2. their places, FOR KEY SHARE SKIP LOCKED: never waited for, and the foreign key of static_slots does not wait then either
--   3. the pool (advisory)
--   4. rows of static_slots and static_runtimes. What writes them without 3 (a failed ping, a cordon) writes one row and ends
-- So there is no cycle. Call these functions in transactions of their own.
--
-- A lock on the pool and not on hosts: it makes arrival order exact, both strategies exact, and "full" never a word for
-- contention. It is held for a commit, so a process asks for many resources in one call.

-- +goose Up

-- The hosts of the pools. A host that left the configuration keeps its row: what lives there still needs its address.
CREATE TABLE berth.static_runtimes (
    provisioner     text NOT NULL CONSTRAINT static_runtimes_provisioner_fkey REFERENCES berth.provisioners,
    host            text NOT NULL,                -- normalised, so that two spellings are one host
    url             text NOT NULL,                -- as configured
    audience        text NOT NULL,
    data_dir        text NOT NULL,
    slots           int  NOT NULL,
    used            int  NOT NULL DEFAULT 0,      -- owned by the triggers of static_slots, never written elsewhere
    failed_pings    int  NOT NULL DEFAULT 0,      -- in a row
    unhealthy_since timestamptz,                  -- failed pings closed it
    cordoned_at     timestamptz,                  -- a person closed it
    removed_at      timestamptz,                  -- no longer in the configuration: keeps what it has, takes no more
    CONSTRAINT static_runtimes_pkey PRIMARY KEY (provisioner, host),
    CONSTRAINT static_runtimes_slots_positive CHECK (slots >= 1),
    CONSTRAINT static_runtimes_used_positive CHECK (used >= 0),
    CONSTRAINT static_runtimes_failed_pings_positive CHECK (failed_pings >= 0)
) WITH (fillfactor = 20);                         -- hot rows: keep every update on its page

CREATE SEQUENCE berth.static_tickets;             -- order of arrival, of all pools

-- What a resource holds and what it waits for, one row per resource and pool. Waiting for a first place: no host, no slots.
-- Waiting to grow: more wanted than held.
CREATE TABLE berth.static_slots (
    resource_id uuid NOT NULL,
    provisioner text NOT NULL,
    host        text,
    slots       int  NOT NULL,                    -- held
    wanted      int  NOT NULL,
    ticket      bigint,                           -- set while it waits
    CONSTRAINT static_slots_pkey PRIMARY KEY (resource_id, provisioner),
    CONSTRAINT static_slots_place_fkey FOREIGN KEY (resource_id, provisioner)
        REFERENCES berth.provisioner_resources (id, provisioner) ON DELETE RESTRICT,
    CONSTRAINT static_slots_runtime_fkey FOREIGN KEY (provisioner, host) REFERENCES berth.static_runtimes,
    CONSTRAINT static_slots_wanted_positive CHECK (wanted >= 1 AND wanted >= slots AND slots >= 0),
    CONSTRAINT static_slots_host_pair CHECK ((host IS NULL) = (slots = 0)),
    CONSTRAINT static_slots_ticket_pair CHECK ((ticket IS NULL) = (wanted = slots))
);
CREATE UNIQUE INDEX static_slots_waiting_idx ON berth.static_slots (provisioner, ticket) WHERE ticket IS NOT NULL;

-- used = sum(slots), for every writer. Shrinking is always allowed, so slots may be lowered in the configuration below what is
-- in use; a plain CHECK (used <= slots) would make that change fail.
-- +goose StatementBegin
CREATE FUNCTION berth.static_slots_count() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    refused bigint;
BEGIN
    IF TG_OP = 'INSERT' THEN
        WITH d AS (SELECT a.provisioner, a.host, sum(a.slots) AS n FROM rows_after a WHERE a.host IS NOT NULL GROUP BY 1, 2),
        u AS (UPDATE berth.static_runtimes o SET used = o.used + d.n FROM d
              WHERE o.provisioner = d.provisioner AND o.host = d.host AND o.slots - o.used >= d.n RETURNING 1)
        SELECT (SELECT count(*) FROM d) - (SELECT count(*) FROM u) INTO refused;
    ELSIF TG_OP = 'DELETE' THEN
        UPDATE berth.static_runtimes o SET used = o.used - d.n
        FROM (SELECT b.provisioner, b.host, sum(b.slots) AS n FROM rows_before b WHERE b.host IS NOT NULL GROUP BY 1, 2) d
        WHERE o.provisioner = d.provisioner AND o.host = d.host;
    ELSE
        WITH d AS (SELECT c.provisioner, c.host, sum(c.slots) AS n
                   FROM (SELECT a.provisioner, a.host, a.slots FROM rows_after a
                         UNION ALL SELECT b.provisioner, b.host, -b.slots FROM rows_before b) c
                   WHERE c.host IS NOT NULL GROUP BY 1, 2 HAVING sum(c.slots) <> 0),
        u AS (UPDATE berth.static_runtimes o SET used = o.used + d.n FROM d
              WHERE o.provisioner = d.provisioner AND o.host = d.host AND (d.n < 0 OR o.slots - o.used >= d.n) RETURNING 1)
        SELECT (SELECT count(*) FROM d) - (SELECT count(*) FROM u) INTO refused;
    END IF;
    IF refused > 0 THEN
        RAISE EXCEPTION 'a static runtime has no room for the slots that were to be held there'
            USING ERRCODE = 'check_violation', SCHEMA = 'berth', TABLE = 'static_runtimes', CONSTRAINT = 'static_runtimes_has_room';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER static_slots_count_insert AFTER INSERT ON berth.static_slots
    REFERENCING NEW TABLE AS rows_after FOR EACH STATEMENT EXECUTE FUNCTION berth.static_slots_count();
CREATE TRIGGER static_slots_count_delete AFTER DELETE ON berth.static_slots
    REFERENCING OLD TABLE AS rows_before FOR EACH STATEMENT EXECUTE FUNCTION berth.static_slots_count();
CREATE TRIGGER static_slots_count_update AFTER UPDATE ON berth.static_slots
    REFERENCING OLD TABLE AS rows_before NEW TABLE AS rows_after FOR EACH STATEMENT EXECUTE FUNCTION berth.static_slots_count();

-- Nothing can be truncated past the count.
-- +goose StatementBegin
CREATE FUNCTION berth.static_slots_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE berth.static_runtimes SET used = 0 WHERE used <> 0;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER static_slots_truncate AFTER TRUNCATE ON berth.static_slots FOR EACH STATEMENT EXECUTE FUNCTION berth.static_slots_truncate();

-- Matches free room to those who wait, in order of arrival, and behind them to newcomers, who wait from now on if there is
-- none. Who is not served keeps every host it could ever use from those behind it: a first place all open hosts that are large
-- enough, a growth its own host. So nobody overtakes to the harm of another, a large request is never starved by small ones,
-- and one that fits no open host holds nobody up. Returns those who waited and were served: wake them.
-- +goose StatementBegin
CREATE FUNCTION berth.static_assign(p text, pack boolean, newcomers uuid[] DEFAULT '{}', sizes int[] DEFAULT '{}') RETURNS uuid[]
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    host text[];              -- the open hosts,
    size bigint[];
    free bigint[];
    own boolean[];            -- whether it is kept for one who grows there;
    smallest int;
    largest int;
    kept bigint;              -- and those of at least this many slots are kept for one who waits
    more boolean := true;
    k int := 0;
    id uuid; at_host text; has int; want int; best int;
    served uuid[] := '{}';
    served_at text[] := '{}';
    new_at text[];
    waiting CURSOR FOR
        SELECT s.resource_id, s.host, s.slots, s.wanted FROM berth.static_slots s
        LEFT JOIN LATERAL (SELECT o.* FROM berth.static_runtimes o WHERE o.provisioner = p AND o.host = s.host OFFSET 0) o ON true
        WHERE s.provisioner = p AND s.ticket IS NOT NULL AND CASE WHEN s.host IS NULL THEN s.wanted <= largest
              ELSE s.wanted <= o.slots AND o.unhealthy_since IS NULL AND o.cordoned_at IS NULL AND o.removed_at IS NULL END
        ORDER BY s.ticket;
BEGIN
    IF cardinality(newcomers) = 0 THEN
        PERFORM FROM berth.static_slots s WHERE s.provisioner = p AND s.ticket IS NOT NULL LIMIT 1;
        IF NOT FOUND THEN RETURN served; END IF;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(p, 2));
    SELECT array_agg(o.host ORDER BY o.host), array_agg(o.slots ORDER BY o.host), array_agg(o.slots - o.used ORDER BY o.host),
        array_agg(false), min(o.slots), max(o.slots) INTO host, size, free, own, smallest, largest
    FROM berth.static_runtimes o
    WHERE o.provisioner = p AND o.unhealthy_since IS NULL AND o.cordoned_at IS NULL AND o.removed_at IS NULL;
    kept := largest + 1::bigint;
    new_at := array_fill(NULL::text, ARRAY[cardinality(newcomers)]);
    OPEN waiting;
    WHILE kept > smallest LOOP
        IF more THEN
            FETCH waiting INTO id, at_host, has, want;
            more := FOUND;
        END IF;
        IF NOT more THEN
            k := k + 1;
            EXIT WHEN k > cardinality(newcomers);
            id := newcomers[k]; at_host := NULL; has := 0; want := sizes[k];
            CONTINUE WHEN want > largest;
        END IF;
        IF at_host IS NOT NULL THEN
            best := array_position(host, at_host);
            CONTINUE WHEN own[best] OR size[best] >= kept;
            IF free[best] < want - has THEN
                own[best] := true;
                CONTINUE;
            END IF;
        ELSE
            CONTINUE WHEN want >= kept;
            best := NULL;
            FOR j IN 1 .. cardinality(host) LOOP
                IF free[j] >= want AND size[j] < kept AND NOT own[j] AND (best IS NULL OR CASE WHEN pack THEN free[j] < free[best]
                   ELSE (size[j] - free[j]) * size[best] < (size[best] - free[best]) * size[j] END) THEN
                    best := j;
                END IF;
            END LOOP;
            IF best IS NULL THEN
                kept := want;
                CONTINUE;
            END IF;
        END IF;
        free[best] := free[best] - (want - has);
        IF more THEN
            served := served || id;
            served_at := served_at || host[best];
        ELSE
            new_at[k] := host[best];
        END IF;
    END LOOP;
    CLOSE waiting;
    IF cardinality(served) > 0 THEN
        UPDATE berth.static_slots s SET host = g.host, slots = s.wanted, ticket = NULL
        FROM unnest(served, served_at) AS g (id, host) WHERE s.resource_id = g.id AND s.provisioner = p;
    END IF;
    IF cardinality(newcomers) > 0 THEN
        INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted, ticket)
        SELECT g.id, p, g.host, CASE WHEN g.host IS NULL THEN 0 ELSE g.n END, g.n,
            CASE WHEN g.host IS NULL THEN nextval('berth.static_tickets') END
        FROM (SELECT u.id, u.n, u.host FROM unnest(newcomers, sizes, new_at) WITH ORDINALITY AS u (id, n, host, i) ORDER BY u.i) g;
    END IF;
    RETURN served;
END $$;
-- +goose StatementEnd

-- What a resource has in a pool. No host: it holds nothing. More wanted than slots: it waits.
CREATE TYPE berth.static_place AS (
    resource_id  uuid,
    lost         boolean,    -- the fence is not the current one: nothing was done
    host         text,
    url          text,
    audience     text,
    data_dir     text,
    slots        int,
    wanted       int,
    failed_pings int,
    unhealthy    boolean,
    largest      int,        -- set if no listed host has as many slots as were asked for: what one has at most. Nothing waits then
    served       uuid[]      -- others who got room: wake them. In the first row alone
);

-- Sees to it that each resource r holds n slots, or waits for them. 0 gives everything back; NULL keeps what is held and no
-- longer waits. Repeat-safe: what is held already is returned. Less is given at once, more in place or waited for. What is held
-- on a host that failed its pings, and is not the one on which r was ready, is given back first. The resources are different
-- ones. One row each, in their order.
--
-- The settings, and the subqueries that OFFSET 0 keeps apart, make every look one by key, also in plans that were made while the
-- tables were empty.
-- +goose StatementBegin
CREATE FUNCTION berth.static_take(p text, pack boolean, r uuid[], f uuid[], n int[], ready_on text[]) RETURNS SETOF berth.static_place
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    fenced int[];             -- positions whose fence is the current one,
    wishing int[];            -- those of them who do not have what is asked for,
    todo int[] := '{}';       -- those whose place could be locked: another one is being deleted just now,
    known int[];              -- and those who have a row
    most int;
    served uuid[] := '{}';
    had berth.static_slots;
    want int;
    i int;
BEGIN
    PERFORM pg_advisory_xact_lock(l.k) FROM (SELECT DISTINCT uuid_hash_extended(u, 1) AS k FROM unnest(r) AS u ORDER BY 1) l;
    SELECT array_agg(q.i), array_agg(q.i) FILTER (WHERE NOT q.met), array_agg(q.i) FILTER (WHERE NOT q.met AND q.known)
    INTO fenced, wishing, known FROM (
        SELECT a.i, s.resource_id IS NOT NULL AS known, CASE
            WHEN s.resource_id IS NULL THEN coalesce(a.n, 0) = 0
            WHEN a.n IS NULL THEN s.ticket IS NULL
            ELSE s.slots = a.n AND s.ticket IS NULL AND (o.unhealthy_since IS NULL OR o.host IS NOT DISTINCT FROM a.ready_on) END AS met
        FROM unnest(r, f, n, ready_on) WITH ORDINALITY AS a (r, f, n, ready_on, i)
        CROSS JOIN LATERAL (SELECT FROM berth.provisioner_resources x WHERE x.id = a.r AND x.provisioner = p AND x.fence = a.f OFFSET 0) x
        LEFT JOIN LATERAL (SELECT s.* FROM berth.static_slots s WHERE s.resource_id = a.r AND s.provisioner = p OFFSET 0) s ON true
        LEFT JOIN LATERAL (SELECT o.* FROM berth.static_runtimes o WHERE o.provisioner = p AND o.host = s.host OFFSET 0) o ON true
        ORDER BY a.i) q;

    IF wishing IS NOT NULL THEN
        todo := ARRAY(SELECT w.i FROM unnest(wishing) AS w (i)
            CROSS JOIN LATERAL (SELECT FROM berth.provisioner_resources x WHERE x.id = r[w.i] AND x.provisioner = p AND x.fence = f[w.i]
                OFFSET 0 FOR KEY SHARE SKIP LOCKED) x);
        PERFORM pg_advisory_xact_lock(hashtextextended(p, 2));
        SELECT coalesce(max(o.slots), 0) INTO most FROM berth.static_runtimes o WHERE o.provisioner = p AND o.removed_at IS NULL;
        FOREACH i IN ARRAY coalesce(known, '{}') LOOP
            CONTINUE WHEN i <> ALL (todo);
            SELECT s.* INTO had FROM berth.static_slots s WHERE s.resource_id = r[i] AND s.provisioner = p;
            want := CASE WHEN n[i] IS NULL OR n[i] > most AND n[i] > had.slots THEN had.slots ELSE n[i] END;
            IF want = 0 OR n[i] IS NOT NULL AND EXISTS (SELECT FROM berth.static_runtimes o WHERE o.provisioner = p AND o.host = had.host
                AND o.unhealthy_since IS NOT NULL AND o.host IS DISTINCT FROM ready_on[i]) THEN
                DELETE FROM berth.static_slots s WHERE s.resource_id = r[i] AND s.provisioner = p;
            ELSE                -- who changes its mind while it waits keeps its turn
                UPDATE berth.static_slots s SET slots = least(had.slots, want), wanted = want,
                    ticket = CASE WHEN want > had.slots THEN coalesce(had.ticket, nextval('berth.static_tickets')) END
                WHERE s.resource_id = r[i] AND s.provisioner = p AND s.wanted <> want;
            END IF;
        END LOOP;
        SELECT berth.static_assign(p, pack, coalesce(array_agg(r[w.i] ORDER BY w.i), '{}'), coalesce(array_agg(n[w.i] ORDER BY w.i), '{}')) INTO served
        FROM unnest(todo) AS w (i)
        LEFT JOIN LATERAL (SELECT s.slots FROM berth.static_slots s WHERE s.resource_id = r[w.i] AND s.provisioner = p OFFSET 0) s ON true
        WHERE s.slots IS NULL AND n[w.i] > 0 AND n[w.i] <= most;
    END IF;

    RETURN QUERY SELECT a.id, (a.i = ANY (fenced) AND (wishing IS NULL OR a.i <> ALL (wishing) OR a.i = ANY (todo))) IS NOT TRUE,
        o.host, o.url, o.audience, o.data_dir, coalesce(s.slots, 0), coalesce(s.wanted, 0), coalesce(o.failed_pings, 0),
        o.unhealthy_since IS NOT NULL, CASE WHEN a.n > most AND a.n > coalesce(s.slots, 0) THEN most END,
        CASE WHEN a.i = 1 THEN array(SELECT u FROM unnest(served) AS u WHERE u <> ALL (r)) END
    FROM unnest(r, n) WITH ORDINALITY AS a (id, n, i)
    LEFT JOIN LATERAL (SELECT s.* FROM berth.static_slots s WHERE s.resource_id = a.id AND s.provisioner = p OFFSET 0) s ON true
    LEFT JOIN LATERAL (SELECT o.* FROM berth.static_runtimes o WHERE o.provisioner = p AND o.host = s.host OFFSET 0) o ON true
    ORDER BY a.i;
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
-- wait. A success needs to be told only of a host that is known to have failed. Returns whom it served, and those on the host
-- whose failures keep them from being looked at soon: wake them.
-- +goose StatementBegin
CREATE FUNCTION berth.static_report(p text, h text, answered boolean, failures int, pack boolean) RETURNS uuid[] LANGUAGE plpgsql AS $$
BEGIN
    IF answered THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(p, 2));
        UPDATE berth.static_runtimes o SET failed_pings = 0, unhealthy_since = NULL
        WHERE o.provisioner = p AND o.host = h AND (o.failed_pings > 0 OR o.unhealthy_since IS NOT NULL);
        IF FOUND THEN
            RETURN berth.static_assign(p, pack) || ARRAY(SELECT s.resource_id FROM berth.static_slots s
                JOIN berth.provisioner_resources x ON x.id = s.resource_id AND x.provisioner = s.provisioner
                WHERE s.provisioner = p AND s.host = h AND x.failures > 0);
        END IF;
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
DROP FUNCTION berth.static_take(text, boolean, uuid[], uuid[], int[], text[]);
DROP TYPE berth.static_place;
DROP FUNCTION berth.static_assign(text, boolean, uuid[], int[]);
DROP TABLE berth.static_slots;
DROP SEQUENCE berth.static_tickets;
DROP TABLE berth.static_runtimes;
DROP FUNCTION berth.static_slots_truncate();
DROP FUNCTION berth.static_slots_count();
