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

-- Claims places, each named once. SKIP LOCKED loses nothing: whoever holds a row is an outcome (it follows up), an intent (it
-- inserts a job) or the dispatcher (it does, or looks again). With take_over false, a lease whose worker died is left alone.
-- What a pause holds is left alone too, and what is at a provisioner another configuration of which acts. It is the statement that
-- runs most, so what only some claims need is not executed for the rest.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION berth.claim(ids uuid[], provisioners text[], fences uuid[], worker uuid, lease interval, alive interval, take_over boolean, spread interval)
RETURNS SETOF berth.claimed LANGUAGE plpgsql AS $$
DECLARE
    acting text[];   -- the provisioners of which the worker has the configuration that acts
    i uuid[];        -- what is locked here: places ...
    p text[];
    f uuid[];
    t boolean[];     -- ... whether somebody had a lease of them ...
    d uuid[];        -- ... with these deployments, NULL for none
    suspect boolean; -- whether any of them ever lost a worker
    free uuid[];     -- the deployments of which are locked here too ...
    wished text[];   -- ... and what is wished of those
BEGIN
    SELECT array_agg(v.name) INTO acting FROM berth.provisioners v LEFT JOIN berth.workers w ON w.id = worker
    WHERE v.name = ANY (claim.provisioners) AND v.digest = coalesce(w.digests[array_position(w.provisioners, v.name)], '');
    SELECT array_agg(l.id), array_agg(l.provisioner), array_agg(l.fence), array_agg(l.taken), array_agg(l.deployment_id), bool_or(l.lost > 0)
    INTO i, p, f, t, d, suspect FROM (
        SELECT x.id, x.provisioner, n.fence, x.fence IS NOT NULL AS taken, x.deployment_id, x.lost
        FROM ROWS FROM (unnest(ids), unnest(provisioners), unnest(fences)) AS n (id, provisioner, fence)
        JOIN berth.provisioner_resources x ON x.id = n.id AND x.provisioner = n.provisioner
        WHERE x.claimed_generation < x.generation AND n.provisioner = ANY (acting)
        ORDER BY x.id, x.provisioner FOR NO KEY UPDATE OF x SKIP LOCKED) l;
    -- A run whose outcome could not be stored now is not begun.
    SELECT array_agg(l.id), array_agg(l.desired_state) INTO free, wished FROM (
        SELECT x.id, x.desired_state FROM berth.deployments x WHERE x.id = ANY (d) ORDER BY x.id FOR NO KEY UPDATE SKIP LOCKED) l;
    IF cardinality(free) IS DISTINCT FROM cardinality(ids) THEN
        RETURN QUERY SELECT true, NULL::boolean, x.id, x.provisioner, NULL::uuid, NULL, NULL, NULL, NULL, NULL::jsonb, NULL::jsonb, NULL::jsonb,
                n.fence, NULL::int, NULL::int, NULL::bigint, NULL::timestamptz
            FROM ROWS FROM (unnest(ids), unnest(provisioners), unnest(fences)) AS n (id, provisioner, fence)
            JOIN berth.provisioner_resources x ON x.id = n.id AND x.provisioner = n.provisioner
            LEFT JOIN ROWS FROM (unnest(f), unnest(d)) AS h (fence, deployment_id) ON h.fence = n.fence
            WHERE x.claimed_generation < x.generation AND n.provisioner = ANY (acting)
              AND (h.fence IS NULL OR (h.deployment_id IS NOT NULL AND h.deployment_id <> ALL (coalesce(free, '{}'))));
    END IF;
    IF i IS NULL THEN RETURN; END IF;
    -- What lost two workers in a row is suspected of killing them, and the next loss convicts it. So it is spread out, away from
    -- what it died with, and no worker has two suspects at once: what else is in flight when it is lost is not convicted with it.
    IF suspect THEN
        UPDATE berth.provisioner_resources x
        SET fence = NULL, leased_by = NULL, leased_until = NULL, lost = greatest(x.lost, 2),
            reason = CASE WHEN x.lost = 1 THEN 'Interrupted' ELSE x.reason END,
            message = CASE WHEN x.lost = 1 THEN 'two workers were lost in a row while they held it' ELSE x.message END,
            claimed_generation = x.generation, retry_at = clock_timestamp() + random() * spread
        FROM ROWS FROM (unnest(i), unnest(p), unnest(f)) AS l (id, provisioner, fence)
        JOIN berth.provisioners v ON v.name = l.provisioner
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
          AND berth.paused_by(x.paused_at, v.paused_at, x.desired_phase, wished[array_position(free, x.deployment_id)]) IS NULL
          AND NOT berth.blocked(x.id, x.provisioner, x.desired_phase);
    END IF;
    -- A live lease: its holder follows up. Blocked: whoever removes the old place wakes this one.
    RETURN QUERY UPDATE berth.provisioner_resources x
        SET fence = l.fence, leased_by = worker, leased_until = clock_timestamp() + lease, claimed_generation = x.generation,
            lost = x.lost + l.taken::int
        FROM ROWS FROM (unnest(i), unnest(p), unnest(f), unnest(t)) AS l (id, provisioner, fence, taken)
        JOIN berth.provisioners v ON v.name = l.provisioner
        WHERE x.id = l.id AND x.provisioner = l.provisioner AND x.claimed_generation < x.generation
          AND (x.deployment_id IS NULL OR x.deployment_id = ANY (free))
          AND (x.fence IS NULL OR x.leased_until <= clock_timestamp() OR take_over AND NOT berth.lease_live(x.leased_by, x.leased_until, alive))
          AND berth.paused_by(x.paused_at, v.paused_at, x.desired_phase, wished[array_position(free, x.deployment_id)]) IS NULL
          AND NOT berth.blocked(x.id, x.provisioner, x.desired_phase)
        RETURNING false, l.taken, x.id, x.provisioner, x.deployment_id, x.type, x.name, x.desired_phase, x.phase, x.args, x.state, x.config,
            x.fence, x.failures, x.lost, x.claimed_generation, x.deadline_at;
END $$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION berth.claim(ids uuid[], provisioners text[], fences uuid[], worker uuid, lease interval, alive interval, take_over boolean, spread interval)
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
    JOIN berth.provisioners v ON v.name = l.provisioner
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
      AND berth.paused_by(x.paused_at, v.paused_at, x.desired_phase, (SELECT c.desired_state FROM berth.deployments c WHERE c.id = x.deployment_id)) IS NULL
      AND NOT berth.blocked(x.id, x.provisioner, x.desired_phase);
    -- A live lease: its holder follows up. Blocked: whoever removes the old place wakes this one.
    RETURN QUERY UPDATE berth.provisioner_resources x
    SET fence = l.fence, leased_by = worker, leased_until = clock_timestamp() + lease, claimed_generation = x.generation,
        lost = x.lost + (o.fence IS NOT NULL)::int
    FROM ROWS FROM (unnest(i), unnest(p), unnest(f)) AS l (id, provisioner, fence)
    JOIN berth.provisioner_resources o ON o.id = l.id AND o.provisioner = l.provisioner
    JOIN berth.provisioners v ON v.name = l.provisioner
    WHERE x.id = l.id AND x.provisioner = l.provisioner AND x.claimed_generation < x.generation
      AND (x.deployment_id IS NULL OR x.deployment_id = ANY (free))
      AND (x.fence IS NULL OR x.leased_until <= clock_timestamp() OR take_over AND NOT berth.lease_live(x.leased_by, x.leased_until, alive))
      AND berth.paused_by(x.paused_at, v.paused_at, x.desired_phase, (SELECT c.desired_state FROM berth.deployments c WHERE c.id = x.deployment_id)) IS NULL
      AND NOT berth.blocked(x.id, x.provisioner, x.desired_phase)
    RETURNING false, o.fence IS NOT NULL, x.id, x.provisioner, x.deployment_id, x.type, x.name, x.desired_phase, x.phase, x.args, x.state, x.config,
        x.fence, x.failures, x.lost, x.claimed_generation, x.deadline_at;
END $$;
-- +goose StatementEnd
DROP FUNCTION berth.announced(text, text, interval);
ALTER TABLE berth.provisioner_resources DROP COLUMN digest;
ALTER TABLE berth.provisioners DROP COLUMN digest, DROP COLUMN acts_since, DROP COLUMN rolled_at, DROP COLUMN rolled_to;
ALTER TABLE berth.workers DROP COLUMN digests, DROP COLUMN default_provisioner;
