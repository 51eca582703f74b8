-- Human work first: pauses, whom nobody waits for, and which backends do not answer a worker.

-- +goose Up

-- A pause holds what is to be made, repaired or restarted; stop, delete and debts go on. It is read at the claim.
ALTER TABLE berth.provisioners ADD COLUMN paused_at timestamptz;
ALTER TABLE berth.provisioner_resources ADD COLUMN paused_at timestamptz;
-- The provisioners whose backends do not answer this worker at the moment.
ALTER TABLE berth.workers ADD COLUMN open_breakers text[] NOT NULL DEFAULT '{}';

-- The reason for which a pause holds a place, or NULL. desired_state is that of its deployment: what is parked in order to be
-- restarted is not taken down while nothing may bring it up again.
CREATE FUNCTION berth.paused_by(paused timestamptz, provisioner_paused timestamptz, desired_phase text, desired_state text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN paused IS NULL AND provisioner_paused IS NULL OR desired_phase = 'absent' THEN NULL
        WHEN desired_phase = 'hibernated' AND desired_state IS DISTINCT FROM 'running' THEN NULL
        WHEN paused IS NOT NULL THEN 'Paused' ELSE 'ProvisionerPaused' END
$$;

-- What to tell a person of that.
CREATE FUNCTION berth.pause_message(reason text, id uuid, provisioner text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN reason = 'Paused' THEN 'the resource is paused: resume it with worker resource resume ' || id::text
        WHEN reason = 'ProvisionerPaused' THEN 'provisioner ' || provisioner || ' is paused: resume it with worker provisioner resume ' || provisioner END
$$;

-- Whether no person waits for a place: it belongs to no deployment any more, what was asked for last was done once, or it is
-- past its deadline.
CREATE FUNCTION berth.background(deployment uuid, observed bigint, intent bigint, deadline timestamptz) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT deployment IS NULL OR observed >= intent OR coalesce(deadline <= clock_timestamp(), false)
$$;

-- Claims places, each named once. SKIP LOCKED loses nothing: whoever holds a row is an outcome (it follows up), an intent (it
-- inserts a job) or the dispatcher (it does, or looks again). With take_over false, a lease whose worker died is left alone.
-- What a pause holds is left alone too.
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

-- How places stand, for people: what a pause holds says so.
CREATE VIEW berth.resource_details AS
SELECT p.id, p.provisioner, p.deployment_id, p.type, p.name, p.desired_phase, p.phase, coalesce(h.held, p.reason)::text AS reason,
       coalesce(berth.pause_message(h.held, p.id, p.provisioner), p.message)::text AS message, p.args, p.config, p.generation,
       p.observed_generation, p.intent_generation, p.failures, p.failing_since, p.given_up_at, p.retry_at, p.deadline_at, p.paused_at, p.created_at
FROM berth.provisioner_resources p
JOIN berth.provisioners v ON v.name = p.provisioner
LEFT JOIN berth.deployments d ON d.id = p.deployment_id
CROSS JOIN LATERAL (SELECT CASE WHEN p.given_up_at IS NULL
    AND (p.claimed_generation < p.generation OR p.observed_generation < p.intent_generation OR p.phase <> p.desired_phase)
    THEN berth.paused_by(p.paused_at, v.paused_at, p.desired_phase, d.desired_state) END AS held) h;
CREATE OR REPLACE VIEW berth.deployment_details AS
SELECT d.id, d.project_id, d.environment, d.desired_state, d.state, d.created_at, d.updated_at,
       o.name AS organization, p.name AS project,
       coalesce(r.provisioner, '')::text AS provisioner, coalesce(r.reason, '')::text AS reason, coalesce(r.message, '')::text AS message,
       coalesce((r.args ->> 'slots')::int, 0)::int AS slots, coalesce(nullif(r.args ->> 'version', ''), 'latest')::text AS version,
       coalesce(replace(r.id::text, '-', ''), '')::text AS runtime_instance_id,
       coalesce(CASE WHEN d.state IN ('running', 'updating') THEN r.config ->> 'host' END, '')::text AS runtime_host,
       coalesce(CASE WHEN d.state IN ('running', 'updating') THEN r.config ->> 'audience' END, '')::text AS runtime_audience
FROM berth.deployments d
JOIN berth.projects p ON p.id = d.project_id
JOIN berth.organizations o ON o.id = p.organization_id
LEFT JOIN LATERAL (SELECT x.* FROM berth.resource_details x
                   WHERE x.deployment_id = d.id AND x.type = 'runtime' AND x.name = ''
                   ORDER BY x.desired_phase <> 'absent' DESC, x.created_at DESC LIMIT 1) r ON true;

-- +goose Down

-- Claims places, each named once. SKIP LOCKED loses nothing: whoever holds a row is an outcome (it follows up), an intent (it
-- inserts a job) or the dispatcher (it does, or looks again). With take_over false, a lease whose worker died is left alone.
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

DROP VIEW berth.deployment_details;
DROP VIEW berth.resource_details;
DROP FUNCTION berth.background(uuid, bigint, bigint, timestamptz);
DROP FUNCTION berth.pause_message(text, uuid, text);
DROP FUNCTION berth.paused_by(timestamptz, timestamptz, text, text);
ALTER TABLE berth.workers DROP COLUMN open_breakers;
ALTER TABLE berth.provisioner_resources DROP COLUMN paused_at;
ALTER TABLE berth.provisioners DROP COLUMN paused_at;

CREATE VIEW berth.deployment_details AS
SELECT d.id, d.project_id, d.environment, d.desired_state, d.state, d.created_at, d.updated_at,
       o.name AS organization, p.name AS project,
       coalesce(r.provisioner, '')::text AS provisioner, coalesce(r.reason, '')::text AS reason, coalesce(r.message, '')::text AS message,
       coalesce((r.args ->> 'slots')::int, 0)::int AS slots, coalesce(nullif(r.args ->> 'version', ''), 'latest')::text AS version,
       coalesce(replace(r.id::text, '-', ''), '')::text AS runtime_instance_id,
       coalesce(CASE WHEN d.state IN ('running', 'updating') THEN r.config ->> 'host' END, '')::text AS runtime_host,
       coalesce(CASE WHEN d.state IN ('running', 'updating') THEN r.config ->> 'audience' END, '')::text AS runtime_audience
FROM berth.deployments d
JOIN berth.projects p ON p.id = d.project_id
JOIN berth.organizations o ON o.id = p.organization_id
LEFT JOIN LATERAL (SELECT x.* FROM berth.provisioner_resources x
                   WHERE x.deployment_id = d.id AND x.type = 'runtime' AND x.name = ''
                   ORDER BY x.desired_phase <> 'absent' DESC, x.created_at DESC LIMIT 1) r ON true;
