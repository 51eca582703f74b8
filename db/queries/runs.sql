-- What the engine does with places: claims, outcomes, wake-ups. What nobody waits for is woken behind what a person waits for.

-- name: PlaceClaim :many
-- One answer a place at most; see berth.claim. Each place is named once.
SELECT c.held::boolean AS held, c.taken_over, c.id::uuid AS id, c.provisioner::text AS provisioner, c.deployment_id, c.type, c.name, c.desired_phase, c.phase, c.args, c.state, c.config,
    c.fence::uuid AS fence, c.failures, c.lost, coalesce(c.deadline_at <= clock_timestamp(), false)::boolean AS overdue
FROM berth.claim(@ids::uuid[], @provisioners::text[], @fences::uuid[], @worker::uuid, @lease::interval, @alive::interval, @take_over::boolean, @spread::interval) c;

-- name: PlaceGiveBack :exec
-- Ends leases by the fences that they chose, and has the places driven anew. Nothing is counted; a state is kept if one is given.
WITH o AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@fences::uuid[]) AS fence, unnest(@states::jsonb[]) AS state
), l AS (
    SELECT p.id, p.provisioner, o.state FROM berth.provisioner_resources p
    JOIN o ON o.id = p.id AND o.fence = p.fence
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET fence = NULL, leased_by = NULL, leased_until = NULL, generation = p.claimed_generation + 1, retry_at = clock_timestamp() + @grace::interval,
    state = coalesce(l.state, p.state)
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner;

-- name: PlaceStore :many
-- Stores outcomes under their fences, where the deployment is locked by the caller. An outcome claimed before the last change
-- of intent says what was seen and settles nothing. What could not be learned overwrites nothing that is known. What is gone and
-- still wished so is not stored: its row is to go. A retry below zero is none.
WITH o AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@provisioners::text[]) AS provisioner, unnest(@fences::uuid[]) AS fence,
        unnest(@phases::text[]) AS phase, unnest(@reasons::text[]) AS reason, unnest(@messages::text[]) AS message,
        unnest(@states::jsonb[]) AS state, unnest(@configs::jsonb[]) AS config, unnest(@digests::text[]) AS digest,
        unnest(@met::boolean[]) AS met, unnest(@failed::boolean[]) AS failed, unnest(@given_up::boolean[]) AS given_up,
        unnest(@waits::boolean[]) AS waits, unnest(@down::boolean[]) AS down, unnest(@gone::boolean[]) AS gone, unnest(@aside::boolean[]) AS aside, unnest(@retries::interval[]) AS retry
), l AS (
    -- Each looked up by its key, whatever the planner believes of the table.
    SELECT o.*, x.old_phase, x.old_state, x.old_config, x.current, x.was_met
    FROM (SELECT * FROM o ORDER BY o.id, o.provisioner) o
    CROSS JOIN LATERAL (
        SELECT p.phase AS old_phase, p.state AS old_state, p.config AS old_config,
            p.claimed_generation >= p.intent_generation AS current, p.observed_generation >= p.intent_generation AS was_met
        FROM berth.provisioner_resources p
        WHERE p.id = o.id AND p.provisioner = o.provisioner AND p.fence = o.fence
          AND (p.deployment_id IS NULL OR p.deployment_id = ANY(@locked::uuid[]))
          AND (NOT o.gone OR p.desired_phase <> 'absent' OR p.claimed_generation < p.intent_generation)
        FOR NO KEY UPDATE SKIP LOCKED) x
)
UPDATE berth.provisioner_resources p
SET phase = CASE WHEN l.phase = 'unknown' THEN p.phase ELSE l.phase END,
    reason = CASE WHEN l.current THEN l.reason ELSE p.reason END,
    message = CASE WHEN l.current THEN l.message ELSE p.message END,
    state = l.state, config = l.config, digest = l.digest,
    observed_generation = CASE WHEN l.current AND l.met THEN p.claimed_generation ELSE p.observed_generation END,
    given_up_at = CASE WHEN NOT l.current THEN p.given_up_at WHEN l.met OR l.waits THEN NULL WHEN l.given_up THEN coalesce(p.given_up_at, now()) ELSE p.given_up_at END,
    failures = CASE WHEN NOT l.current THEN p.failures WHEN l.met THEN 0 WHEN l.failed THEN p.failures + 1 ELSE p.failures END,
    failing_since = CASE WHEN NOT l.current THEN p.failing_since WHEN l.met THEN NULL WHEN l.failed THEN coalesce(p.failing_since, now()) ELSE p.failing_since END,
    deadline_at = CASE WHEN NOT l.current THEN p.deadline_at
        WHEN l.met OR l.waits OR p.desired_phase <> 'ready' OR l.down AND coalesce(p.deadline_at > clock_timestamp(), true) THEN NULL
        ELSE coalesce(p.deadline_at, clock_timestamp() + (SELECT v.timeout FROM berth.provisioners v WHERE v.name = p.provisioner)) END,
    retry_at = CASE WHEN p.generation > p.claimed_generation THEN clock_timestamp() + @grace::interval WHEN l.retry >= interval '0' THEN clock_timestamp() + l.retry END,
    lost = CASE WHEN l.aside THEN p.lost ELSE 0 END,
    fence = NULL, leased_by = NULL, leased_until = NULL, updated_at = now()
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING l.fence::uuid AS fence, p.id, p.provisioner, p.deployment_id, p.type, p.desired_phase, p.phase, p.config,
    (p.generation > p.claimed_generation)::boolean AS moved, l.current::boolean AS current, (l.current AND l.met)::boolean AS met, l.was_met::boolean AS was_met,
    l.old_phase, (l.old_config IS DISTINCT FROM p.config)::boolean AS config_changed, (l.old_state IS DISTINCT FROM p.state)::boolean AS state_changed;

-- name: PlaceDrop :many
-- Lets go of the rows of what is confirmed gone and still wished so, and leaves the proof that it was ours.
WITH o AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@provisioners::text[]) AS provisioner, unnest(@fences::uuid[]) AS fence
), l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    JOIN o ON o.id = p.id AND o.provisioner = p.provisioner AND o.fence = p.fence
    WHERE p.desired_phase = 'absent' AND p.claimed_generation >= p.intent_generation
      AND (p.deployment_id IS NULL OR p.deployment_id = ANY(@locked::uuid[]))
    ORDER BY p.id, p.provisioner FOR UPDATE OF p SKIP LOCKED
), gone AS (
    DELETE FROM berth.provisioner_resources p USING l
    WHERE p.id = l.id AND p.provisioner = l.provisioner
    RETURNING p.fence, p.id, p.provisioner, p.deployment_id, p.type, p.config
), proof AS (
    INSERT INTO berth.deleted_resources (id, provisioner) SELECT g.id, g.provisioner FROM gone g ON CONFLICT DO NOTHING
)
SELECT g.fence::uuid AS fence, g.id, g.provisioner, g.deployment_id, g.type, g.config FROM gone g;

-- name: PlaceHolds :many
-- Which of these fences still hold a lease.
SELECT p.fence::uuid AS fence FROM berth.provisioner_resources p WHERE p.id = ANY(@ids::uuid[]) AND p.fence = ANY(@fences::uuid[]);

-- name: PlaceWaiting :many
-- Places of these resources that wait to be claimed: for an older one to go, or for somebody to ask again.
SELECT p.id, p.provisioner, p.deployment_id, p.desired_phase, berth.background(p.deployment_id, p.observed_generation, p.intent_generation, p.deadline_at)::boolean AS background FROM berth.provisioner_resources p
WHERE p.id = ANY(@ids::uuid[]) AND p.claimed_generation < p.generation
ORDER BY p.id, p.provisioner;

-- name: PlaceWake :many
-- A generation more, unless one is waiting to be claimed. The dispatcher's patience begins anew. What someone holds is left out;
-- see PlaceUnwoken.
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.id = ANY(@ids::uuid[]) AND p.provisioner = @provisioner AND p.claimed_generation = p.generation
    ORDER BY p.id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET generation = p.generation + 1, retry_at = least(p.retry_at, clock_timestamp() + @grace::interval), updated_at = now()
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase, berth.background(p.deployment_id, p.observed_generation, p.intent_generation, p.deadline_at)::boolean AS background;

-- name: PlaceUnwoken :many
-- What PlaceWake, earlier in the transaction, left out.
SELECT p.id FROM berth.provisioner_resources p
WHERE p.id = ANY(@ids::uuid[]) AND p.provisioner = @provisioner AND p.claimed_generation = p.generation
ORDER BY p.id;

-- name: PlaceOrphaned :many
-- The leases of these dead workers are over and what they held is due: all of those who died just now, and what was left out of the
-- others'. So also a worker that may not judge others yet can claim it. What someone holds is left out, and returned.
WITH o AS MATERIALIZED (
    SELECT x.id, x.provisioner FROM berth.provisioner_resources x
    WHERE x.leased_by = ANY(@dead::uuid[]) AND (x.leased_by <> ALL(@hurried::uuid[]) OR x.id = ANY(@left_out::uuid[]))
      AND x.leased_until > clock_timestamp()
), l AS MATERIALIZED (
    SELECT x.id, x.provisioner FROM berth.provisioner_resources x JOIN o USING (id, provisioner)
    WHERE x.leased_by = ANY(@dead::uuid[]) AND NOT berth.lease_live(x.leased_by, x.leased_until, @alive::interval)
    ORDER BY x.id, x.provisioner FOR NO KEY UPDATE OF x SKIP LOCKED
), u AS (
    UPDATE berth.provisioner_resources p SET leased_until = clock_timestamp(), retry_at = clock_timestamp()
    FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
)
SELECT DISTINCT o.id FROM o WHERE NOT EXISTS (SELECT FROM l WHERE l.id = o.id AND l.provisioner = o.provisioner) ORDER BY o.id;

-- name: PlaceDispatch :many
-- Wakes what is due and held by nobody alive, and whose deployment nobody holds: a run of it would only find that it is. Patience
-- grows with the time since the last outcome, so a backlog is not buried under jobs; what the dead held does not wait for that, but
-- for the time since they died. Places of provisioners that no live worker has go to the queue that all work. What a pause holds is
-- left alone, and what is at provisioners that are idle here, because another configuration acts, is left to those whose does. What
-- is not due yet is not read: only now() bounds the scan of the index.
WITH due AS (
    SELECT p.id, p.provisioner, p.retry_at, v.seen_at < clock_timestamp() - @missing_for::interval AS missing
    FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.retry_at <= now() AND p.provisioner <> ALL (@idle::text[])
      AND (p.fence IS NULL OR p.leased_until <= clock_timestamp() OR (@take_over::boolean AND NOT berth.lease_live(p.leased_by, p.leased_until, @alive::interval)))
      AND (p.desired_phase = 'absent' OR NOT EXISTS (SELECT FROM berth.provisioner_resources s
            WHERE s.id = p.id AND s.provisioner <> p.provisioner AND s.desired_phase = 'absent' AND s.deployment_id IS NOT NULL))
      AND berth.paused_by(p.paused_at, v.paused_at, p.desired_phase, (SELECT d.desired_state FROM berth.deployments d WHERE d.id = p.deployment_id)) IS NULL
      AND (p.deployment_id IS NULL OR EXISTS (SELECT FROM berth.deployments d WHERE d.id = p.deployment_id FOR NO KEY UPDATE SKIP LOCKED))
    ORDER BY p.retry_at LIMIT @most FOR NO KEY UPDATE OF p SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET generation = p.claimed_generation + 1,
    retry_at = clock_timestamp() + CASE WHEN p.fence IS NULL
        THEN greatest(@grace::interval, least(@max_grace::interval, (clock_timestamp() - p.updated_at) / 2))
        ELSE greatest(@each::interval, least(@max_grace::interval, (clock_timestamp() - (SELECT w.alive_until FROM berth.workers w WHERE w.id = p.leased_by)) / 2)) END
FROM due WHERE p.id = due.id AND p.provisioner = due.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase, berth.background(p.deployment_id, p.observed_generation, p.intent_generation, p.deadline_at)::boolean AS background, due.missing::boolean AS missing, due.retry_at::timestamptz AS due_at;

-- name: PlaceOverdue :many
-- Locks deployments of places whose deadline passed and whose state does not say so yet. What someone holds does not keep the rest
-- from being found. Only places whose deadline passed so lately are read, and their deployments by key and in order, whatever the
-- planner believes: a sort after the locks would lock more than are asked for. While something is paused its deadline stands still.
WITH late AS MATERIALIZED (
    SELECT DISTINCT p.deployment_id FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.deadline_at <= now() AND p.deadline_at > now() - @within::interval AND p.deadline_at <= least(p.paused_at, v.paused_at, now())
    ORDER BY p.deployment_id
)
SELECT d.id FROM late CROSS JOIN LATERAL (
    SELECT x.id FROM berth.deployments x
    WHERE x.id = late.deployment_id AND x.desired_state = 'running' AND x.state <> 'errored' FOR NO KEY UPDATE SKIP LOCKED) d
LIMIT @most;

-- name: PlaceUnavailable :execrows
-- Says of what waits for a backend that does not answer why it does, once, and a batch at a time. Its deadline runs no more, unless
-- it has passed. What was asked for just now may be driven by another worker, which the backend answers.
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.provisioner = @provisioner AND p.retry_at IS NOT NULL AND p.fence IS NULL AND p.given_up_at IS NULL
      AND (p.observed_generation < p.intent_generation OR p.phase <> p.desired_phase)
      AND (p.reason = 'BackendUnavailable' AND p.deadline_at > clock_timestamp()
           OR p.reason <> 'BackendUnavailable' AND p.claimed_generation < p.generation AND p.updated_at < clock_timestamp() - @grace::interval)
    ORDER BY p.id LIMIT @most FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET reason = 'BackendUnavailable', message = @message, deadline_at = CASE WHEN p.deadline_at <= clock_timestamp() THEN p.deadline_at END
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner;

-- name: PlaceProbe :many
-- One place to try a backend with that does not answer: what a person waits for first, then what waits longest.
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.provisioner = @provisioner AND p.retry_at IS NOT NULL AND p.fence IS NULL
      AND (p.claimed_generation < p.generation OR p.reason = 'BackendUnavailable')
      AND berth.paused_by(p.paused_at, v.paused_at, p.desired_phase, (SELECT d.desired_state FROM berth.deployments d WHERE d.id = p.deployment_id)) IS NULL
      AND NOT berth.blocked(p.id, p.provisioner, p.desired_phase)
    ORDER BY berth.background(p.deployment_id, p.observed_generation, p.intent_generation, p.deadline_at), p.retry_at
    LIMIT 1 FOR NO KEY UPDATE OF p SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET generation = p.claimed_generation + 1, retry_at = clock_timestamp() + @grace::interval
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, berth.background(p.deployment_id, p.observed_generation, p.intent_generation, p.deadline_at)::boolean AS background;

-- name: PlaceHurry :execrows
-- What waited for a backend that answers again is due now, in the order in which it would have been; a batch at a time. The deadline
-- runs anew where it did not.
WITH l AS (
    SELECT p.id, p.provisioner, v.timeout FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.provisioner = @provisioner AND p.fence IS NULL
      AND (p.retry_at > clock_timestamp() AND (p.claimed_generation < p.generation OR p.reason = 'BackendUnavailable')
           OR p.retry_at IS NOT NULL AND p.reason = 'BackendUnavailable' AND p.desired_phase = 'ready' AND p.deadline_at IS NULL)
    ORDER BY p.retry_at LIMIT @most FOR NO KEY UPDATE OF p SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET retry_at = least(p.retry_at, clock_timestamp()),
    deadline_at = CASE WHEN p.reason = 'BackendUnavailable' AND p.desired_phase = 'ready' THEN coalesce(p.deadline_at, clock_timestamp() + l.timeout) ELSE p.deadline_at END
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner;

-- name: PlaceStrand :many
-- The deployment is locked by the caller. A place whose provisioner no live worker has: a delete is settled with a debt, everything
-- else waits and says why. A lease that can still be good is left alone.
UPDATE berth.provisioner_resources p
SET deployment_id = CASE WHEN p.desired_phase = 'absent' THEN NULL ELSE p.deployment_id END,
    reason = 'ProvisionerMissing', message = @message, claimed_generation = p.generation, fence = NULL, leased_by = NULL, leased_until = NULL,
    retry_at = clock_timestamp() + @retry::interval, updated_at = now()
FROM berth.provisioners v
WHERE p.id = @id AND p.provisioner = @provisioner AND (p.fence IS NULL OR p.leased_until <= clock_timestamp())
  AND (p.deployment_id IS NULL OR p.deployment_id = ANY(@locked::uuid[]))
  AND v.name = p.provisioner AND v.seen_at < clock_timestamp() - @missing_for::interval
RETURNING p.id, p.provisioner, p.desired_phase;

-- name: PlaceDeployment :one
SELECT deployment_id FROM berth.provisioner_resources WHERE id = @id AND provisioner = @provisioner;

-- name: PlaceHopeless :many
-- What was given up at a provisioner: its configuration may have changed since. What kills its workers is left to the dispatcher, or
-- it would kill each as it starts.
SELECT p.id FROM berth.provisioner_resources p
WHERE p.provisioner = @provisioner AND p.given_up_at IS NOT NULL AND p.fence IS NULL AND p.lost < @max_lost::int
ORDER BY p.id;
