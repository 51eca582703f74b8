-- name: PlaceInsert :exec
-- It joins nothing, so a session plans it once.
INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, name, desired_phase, args, retry_at, deadline_at)
SELECT n.id, n.provisioner, n.deployment_id, n.type, n.name, n.desired_phase, n.args, clock_timestamp() + @grace::interval,
    CASE WHEN n.desired_phase = 'ready' THEN clock_timestamp() + n.timeout END
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@provisioners::text[]) AS provisioner, unnest(@timeouts::interval[]) AS timeout, unnest(@deployment_ids::uuid[]) AS deployment_id, unnest(@types::text[]) AS type, unnest(@names::text[]) AS name, unnest(@desired_phases::text[]) AS desired_phase, unnest(@args::jsonb[]) AS args) AS n
ORDER BY n.id;

-- name: PlaceWish :many
-- A new intent for the places of these deployments, each with a phase of its own; an empty one means that the wish stays. What is
-- on its way out stays so. What is wished so already, and is not failing, is left alone; what fails is tried again from the start.
WITH l AS (
    SELECT p.id, p.provisioner, CASE WHEN p.desired_phase = 'absent' OR n.phase = '' THEN p.desired_phase ELSE n.phase END AS desired_phase
    FROM berth.provisioner_resources p
    JOIN (SELECT unnest(@deployment_ids::uuid[]) AS deployment_id, unnest(@desired_phases::text[]) AS phase) AS n ON n.deployment_id = p.deployment_id
    WHERE (p.desired_phase <> 'absent' AND n.phase <> '' AND p.desired_phase <> n.phase)
       OR p.given_up_at IS NOT NULL OR p.failures > 0 OR p.deadline_at <= clock_timestamp()
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET desired_phase = l.desired_phase, generation = p.claimed_generation + 1, intent_generation = p.claimed_generation + 1,
    retry_at = clock_timestamp() + @grace::interval, failures = 0, failing_since = NULL, given_up_at = NULL, lost = 0, reason = '', message = '',
    deadline_at = CASE WHEN l.desired_phase = 'ready' THEN clock_timestamp() + v.timeout END, updated_at = now()
FROM l JOIN berth.provisioners v ON v.name = l.provisioner
WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase;

-- name: PlaceWishRestarted :many
-- The places of a restart that are parked are wished ready again.
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.id = ANY(@ids::uuid[]) AND p.desired_phase = 'hibernated'
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET desired_phase = 'ready', generation = p.claimed_generation + 1, intent_generation = p.claimed_generation + 1,
    retry_at = clock_timestamp() + @grace::interval, failures = 0, failing_since = NULL, given_up_at = NULL, lost = 0, reason = '', message = '',
    deadline_at = clock_timestamp() + v.timeout, updated_at = now()
FROM l JOIN berth.provisioners v ON v.name = l.provisioner
WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase;

-- name: PlaceWishAbsent :many
-- Every place of these deployments, moves under way included, or only the resource named.
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.deployment_id = ANY(@deployment_ids::uuid[])
      AND (sqlc.narg(type)::text IS NULL OR (p.type = sqlc.narg(type)::text AND lower(p.name) = lower(sqlc.narg(name)::text)))
      AND (p.desired_phase <> 'absent' OR p.given_up_at IS NOT NULL OR p.failures > 0)
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET desired_phase = 'absent', generation = p.claimed_generation + 1, intent_generation = p.claimed_generation + 1,
    retry_at = clock_timestamp() + @grace::interval, failures = 0, failing_since = NULL, given_up_at = NULL, lost = 0, reason = '', message = '',
    deadline_at = NULL, updated_at = now()
FROM l
WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase;

-- name: PlacePatch :many
-- Changes what is asked for where that makes a difference: key by key, or all of it. A new intent only where the resource is
-- wished ready: what is parked reads it when it wakes.
WITH n AS (
    SELECT p.id, p.provisioner, v.timeout,
        CASE WHEN @replace::boolean THEN '{}'::jsonb ELSE p.args END || @patch::jsonb
            || CASE WHEN @annotations::jsonb = '{}'::jsonb AND cardinality(@forget::text[]) = 0 THEN '{}'::jsonb
               ELSE jsonb_build_object('annotations', (coalesce(p.args -> 'annotations', '{}'::jsonb) - @forget::text[]) || @annotations::jsonb) END AS args
    FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.deployment_id = ANY(@deployment_ids::uuid[]) AND p.desired_phase <> 'absent' AND p.type = @type AND lower(p.name) = lower(@name)
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET args = n.args, updated_at = now(),
    generation = CASE WHEN p.desired_phase = 'ready' THEN p.claimed_generation + 1 ELSE p.generation END,
    intent_generation = CASE WHEN p.desired_phase = 'ready' THEN p.claimed_generation + 1 ELSE p.intent_generation END,
    retry_at = CASE WHEN p.desired_phase = 'ready' THEN clock_timestamp() + @grace::interval ELSE p.retry_at END,
    failures = CASE WHEN p.desired_phase = 'ready' THEN 0 ELSE p.failures END,
    failing_since = CASE WHEN p.desired_phase = 'ready' THEN NULL ELSE p.failing_since END,
    given_up_at = CASE WHEN p.desired_phase = 'ready' THEN NULL ELSE p.given_up_at END,
    lost = CASE WHEN p.desired_phase = 'ready' THEN 0 ELSE p.lost END,
    reason = CASE WHEN p.desired_phase = 'ready' THEN '' ELSE p.reason END,
    message = CASE WHEN p.desired_phase = 'ready' THEN '' ELSE p.message END,
    deadline_at = CASE WHEN p.desired_phase = 'ready' THEN clock_timestamp() + n.timeout ELSE p.deadline_at END
FROM n
WHERE p.id = n.id AND p.provisioner = n.provisioner AND p.args <> n.args
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase;

-- name: PlaceOverAnnotated :many
-- Which of these deployments a change would leave with more annotations than that, those aside that are forgotten.
SELECT p.deployment_id, n.annotations::bigint AS annotations
FROM berth.provisioner_resources p CROSS JOIN LATERAL (
    SELECT count(*) AS annotations FROM jsonb_object_keys((coalesce(p.args -> 'annotations', '{}'::jsonb) - @forget::text[]) || @annotations::jsonb)) AS n
WHERE p.deployment_id = ANY(@deployment_ids::uuid[]) AND p.desired_phase <> 'absent' AND p.type = @type AND lower(p.name) = lower(@name)
    AND n.annotations > @most::bigint
ORDER BY p.deployment_id LIMIT 1;

-- name: PlaceCurrent :many
-- The current resource of a name in each of these deployments.
SELECT p.id, p.provisioner, p.deployment_id, p.args FROM berth.provisioner_resources p
WHERE p.deployment_id = ANY(@deployment_ids::uuid[]) AND p.desired_phase <> 'absent' AND p.type = @type AND lower(p.name) = lower(@name)
ORDER BY p.id;

-- name: PlaceOwners :many
-- Whose these resources are.
SELECT p.id, p.deployment_id FROM berth.provisioner_resources p WHERE p.id = ANY(@ids::uuid[]) ORDER BY p.id, p.provisioner;

-- name: PlaceReconcile :many
-- A person's wake-up of every place of these resources, however they stand: a generation more, unless one is waiting to be claimed.
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.id = ANY(@ids::uuid[])
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET generation = p.claimed_generation + 1, retry_at = least(p.retry_at, clock_timestamp() + @grace::interval), updated_at = now()
FROM l JOIN berth.provisioners v ON v.name = l.provisioner
WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase, (v.seen_at < clock_timestamp() - @missing_for::interval)::boolean AS missing;

-- name: PlacePage :many
-- Whoever has the last id of the page has all of its places there. The page is found in the table, in the order of its key; how its
-- places stand is looked up for them alone. The reason is that of the last outcome, or what is paused.
SELECT d.id, d.provisioner, d.deployment_id, d.type, d.name, d.desired_phase, d.phase, d.reason, d.message, d.args, d.config, d.generation,
    d.observed_generation, d.intent_generation, d.failures, d.failing_since, d.given_up_at, d.retry_at, d.deadline_at, d.paused_at
FROM (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.id > @after::uuid
      AND (sqlc.narg(deployment_id)::uuid IS NULL OR p.deployment_id = sqlc.narg(deployment_id)::uuid)
      AND (sqlc.narg(provisioner)::text IS NULL OR p.provisioner = sqlc.narg(provisioner)::text)
      AND (sqlc.narg(type)::text IS NULL OR p.type = sqlc.narg(type)::text)
      AND (sqlc.narg(phase)::text IS NULL OR p.phase = sqlc.narg(phase)::text)
      AND (sqlc.narg(reason)::text IS NULL OR CASE sqlc.narg(reason)::text WHEN 'Paused' THEN p.paused_at IS NOT NULL
          WHEN 'ProvisionerPaused' THEN EXISTS (SELECT FROM berth.provisioners v WHERE v.name = p.provisioner AND v.paused_at IS NOT NULL)
          ELSE p.reason = sqlc.narg(reason)::text END)
    ORDER BY p.id FETCH FIRST (@most::int) ROWS WITH TIES) page
CROSS JOIN LATERAL (SELECT x.* FROM berth.resource_details x WHERE x.id = page.id AND x.provisioner = page.provisioner OFFSET 0) d
ORDER BY d.id;

-- name: PlaceGet :many
-- Every place of a resource, the current one first.
SELECT id, provisioner, deployment_id, type, name, desired_phase, phase, reason, message, args, config, generation, observed_generation,
    intent_generation, failures, failing_since, given_up_at, retry_at, deadline_at, paused_at
FROM berth.resource_details WHERE id = @id
ORDER BY desired_phase = 'absent', created_at;

-- name: PlaceList :many
SELECT id, provisioner, deployment_id, type, name, desired_phase, phase, reason, message, args, config, generation, observed_generation,
    intent_generation, failures, failing_since, given_up_at, retry_at, deadline_at, paused_at
FROM berth.resource_details WHERE deployment_id = ANY(@deployment_ids::uuid[])
ORDER BY deployment_id, type, name, created_at;

-- name: PlacePause :many
-- The deployments are locked by the caller.
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.id = ANY(@ids::uuid[]) AND p.deployment_id = ANY(@locked::uuid[]) AND p.paused_at IS NULL
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE
)
UPDATE berth.provisioner_resources p SET paused_at = clock_timestamp()
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id;

-- name: PlaceResume :many
-- Ends the pause of these resources; see PlaceResumed. The deployments are locked by the caller.
WITH l AS (
    SELECT p.id, p.provisioner, least(p.paused_at, v.paused_at) AS stood, coalesce(v.paused_at, clock_timestamp()) AS goes, v.timeout
    FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.id = ANY(@ids::uuid[]) AND p.deployment_id = ANY(@locked::uuid[]) AND p.paused_at IS NOT NULL
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET paused_at = NULL, retry_at = CASE WHEN p.claimed_generation < p.generation THEN least(p.retry_at, clock_timestamp()) ELSE p.retry_at END,
    deadline_at = CASE WHEN p.deadline_at IS NOT NULL THEN l.goes + least(p.deadline_at - l.stood, l.timeout) END
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase, (p.claimed_generation < p.generation)::boolean AS waiting;

-- name: PlaceResumed :exec
-- Has the clock of a provisioner's places go on after a pause since then: what is left of a deadline is what was left, and no more
-- than a new intent has. What was to be driven is due, in the order in which it was asked for. A place that is paused itself goes
-- on to stand still, since its own pause began.
WITH l AS (
    SELECT p.id, p.provisioner, least(p.paused_at, @since::timestamptz) AS stood, coalesce(p.paused_at, clock_timestamp()) AS goes, v.timeout
    FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.provisioner = @provisioner AND (p.deadline_at IS NOT NULL OR p.claimed_generation < p.generation)
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET retry_at = CASE WHEN p.claimed_generation < p.generation THEN least(p.retry_at, clock_timestamp()) ELSE p.retry_at END,
    deadline_at = CASE WHEN p.deadline_at IS NOT NULL THEN l.goes + least(p.deadline_at - l.stood, l.timeout) END
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner;

-- name: PlaceNotes :one
-- What the provisioner of a place is given, its own notes included, which nobody else is shown.
SELECT p.args, p.state, p.config FROM berth.provisioner_resources p WHERE p.id = @id AND p.provisioner = @provisioner;
