-- Claims: which process may drive a place now. What decides is read after the lock is held, in statements of their own, so
-- it is never older than the row.

-- +goose Up

-- Whether the holder of a lease can still be at work. A worker that is not known counts as alive until the lease's hard end:
-- its row may be younger than the caller's snapshot. So rows of workers are pruned only when no lease can name them. After a
-- restart of the server everybody is given one full alive time to come back before anything is taken over.
-- +goose StatementBegin
CREATE FUNCTION berth.lease_live(worker uuid, until timestamptz, alive interval) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT until IS NOT NULL AND until > clock_timestamp()
       AND (pg_postmaster_start_time() + alive > clock_timestamp()
            OR NOT EXISTS (SELECT FROM berth.workers w WHERE w.id = worker AND w.alive_until <= clock_timestamp()))
$$;
-- +goose StatementEnd

-- Whether a place has to wait for another of its resource to go. A debt blocks nothing.
CREATE FUNCTION berth.blocked(i uuid, p text, desired text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT desired <> 'absent' AND EXISTS (SELECT FROM berth.provisioner_resources s
        WHERE s.id = i AND s.provisioner <> p AND s.desired_phase = 'absent' AND s.deployment_id IS NOT NULL)
$$;

-- What a claim answers of a place: nothing (no row), held (someone holds what it needs: ask again soon), or the place.
CREATE TYPE berth.claimed AS (
    held               boolean,
    taken_over         boolean,
    id                 uuid,
    provisioner        text,
    deployment_id      uuid,
    type               text,
    name               text,
    desired_phase      text,
    phase              text,
    args               jsonb,
    state              jsonb,
    config             jsonb,
    fence              uuid,
    failures           int,
    lost               int,
    claimed_generation bigint,
    deadline_at        timestamptz
);

-- Few rows, if any. lost changes only where a worker was lost, so a claim keeps its row on its page all the same.
CREATE INDEX provisioner_resources_suspect_idx ON berth.provisioner_resources (provisioner, id) WHERE lost >= 2;

-- Claims places, each named once. SKIP LOCKED loses nothing: whoever holds a row is an outcome (it follows up), an intent (it
-- inserts a job) or the dispatcher (it does, or looks again). With take_over false, a lease whose worker died is left alone.
-- +goose StatementBegin
CREATE FUNCTION berth.claim(ids uuid[], provisioners text[], fences uuid[], worker uuid, lease interval, alive interval, take_over boolean, spread interval)
RETURNS SETOF berth.claimed LANGUAGE plpgsql AS $$
DECLARE
    i uuid[];      -- what is locked here: places ...
    p text[];
    f uuid[];
    d uuid[];      -- ... with these deployments, NULL for none
    free uuid[];   -- the deployments of which are locked here too
BEGIN
    SELECT array_agg(l.id), array_agg(l.provisioner), array_agg(l.fence), array_agg(l.deployment_id) INTO i, p, f, d FROM (
        SELECT x.id, x.provisioner, n.fence, x.deployment_id
        FROM ROWS FROM (unnest(ids), unnest(provisioners), unnest(fences)) AS n (id, provisioner, fence)
        JOIN berth.provisioner_resources x ON x.id = n.id AND x.provisioner = n.provisioner
        WHERE x.claimed_generation < x.generation
        ORDER BY x.id, x.provisioner FOR NO KEY UPDATE OF x SKIP LOCKED) l;
    -- A run whose outcome could not be stored now is not begun.
    SELECT array_agg(l.id) INTO free FROM (
        SELECT x.id FROM berth.deployments x WHERE x.id = ANY (d) ORDER BY x.id FOR NO KEY UPDATE SKIP LOCKED) l;
    RETURN QUERY SELECT true, NULL::boolean, x.id, x.provisioner, NULL::uuid, NULL, NULL, NULL, NULL, NULL::jsonb, NULL::jsonb, NULL::jsonb,
            n.fence, NULL::int, NULL::int, NULL::bigint, NULL::timestamptz
        FROM ROWS FROM (unnest(ids), unnest(provisioners), unnest(fences)) AS n (id, provisioner, fence)
        JOIN berth.provisioner_resources x ON x.id = n.id AND x.provisioner = n.provisioner
        LEFT JOIN ROWS FROM (unnest(f), unnest(d)) AS h (fence, deployment_id) ON h.fence = n.fence
        WHERE x.claimed_generation < x.generation
          AND (h.fence IS NULL OR (h.deployment_id IS NOT NULL AND h.deployment_id <> ALL (coalesce(free, '{}'))));
    IF i IS NULL THEN RETURN; END IF;
    -- What lost two workers in a row is suspected of killing them, and the next loss convicts it. So it is spread out, away from
    -- what it died with, and no worker has two suspects at once: what else is in flight when it is lost is not convicted with it.
    UPDATE berth.provisioner_resources x
    SET fence = NULL, leased_by = NULL, leased_until = NULL, lost = greatest(x.lost, 2),
        reason = CASE WHEN x.lost = 1 THEN 'Interrupted' ELSE x.reason END,
        message = CASE WHEN x.lost = 1 THEN 'two workers were lost in a row while they held it' ELSE x.message END,
        claimed_generation = x.generation, retry_at = clock_timestamp() + random() * spread
    FROM ROWS FROM (unnest(i), unnest(p), unnest(f)) AS l (id, provisioner, fence)
    WHERE x.id = l.id AND x.provisioner = l.provisioner
      AND (x.fence IS NOT NULL AND x.lost = 1
           OR x.fence IS NULL AND x.lost >= 2 AND l.fence IS DISTINCT FROM (
               SELECT c.fence FROM ROWS FROM (unnest(i), unnest(p), unnest(f)) AS c (id, provisioner, fence)
               JOIN berth.provisioner_resources y ON y.id = c.id AND y.provisioner = c.provisioner
               WHERE y.fence IS NULL AND y.lost >= 2
                 AND NOT EXISTS (SELECT FROM berth.provisioner_resources s WHERE s.lost >= 2 AND s.leased_by = worker)
               ORDER BY c.fence LIMIT 1))
      AND (x.deployment_id IS NULL OR x.deployment_id = ANY (free))
      AND (x.fence IS NULL OR x.leased_until <= clock_timestamp() OR take_over AND NOT berth.lease_live(x.leased_by, x.leased_until, alive))
      AND NOT berth.blocked(x.id, x.provisioner, x.desired_phase);
    -- A live lease: its holder follows up. Blocked: whoever removes the old place wakes this one.
    RETURN QUERY UPDATE berth.provisioner_resources x
    SET fence = l.fence, leased_by = worker, leased_until = clock_timestamp() + lease, claimed_generation = x.generation,
        lost = x.lost + (o.fence IS NOT NULL)::int
    FROM ROWS FROM (unnest(i), unnest(p), unnest(f)) AS l (id, provisioner, fence)
    JOIN berth.provisioner_resources o ON o.id = l.id AND o.provisioner = l.provisioner
    WHERE x.id = l.id AND x.provisioner = l.provisioner AND x.claimed_generation < x.generation
      AND (x.deployment_id IS NULL OR x.deployment_id = ANY (free))
      AND (x.fence IS NULL OR x.leased_until <= clock_timestamp() OR take_over AND NOT berth.lease_live(x.leased_by, x.leased_until, alive))
      AND NOT berth.blocked(x.id, x.provisioner, x.desired_phase)
    RETURNING false, o.fence IS NOT NULL, x.id, x.provisioner, x.deployment_id, x.type, x.name, x.desired_phase, x.phase, x.args, x.state, x.config,
        x.fence, x.failures, x.lost, x.claimed_generation, x.deadline_at;
END $$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION berth.claim(uuid[], text[], uuid[], uuid, interval, interval, boolean, interval);
DROP INDEX berth.provisioner_resources_suspect_idx;
DROP TYPE berth.claimed;
DROP FUNCTION berth.blocked(uuid, text, text);
DROP FUNCTION berth.lease_live(uuid, timestamptz, interval);
