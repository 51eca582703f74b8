-- name: ConfigurationActing :one

SELECT p.digest, p.acts_since, (p.rolled_at IS NOT NULL)::boolean AS rolling, (p.acts_since > clock_timestamp() - $1::interval)::boolean AS fresh, (NOT berth.announced(p.name, p.digest, $1::interval))::boolean AS silent,
    EXISTS (SELECT FROM berth.workers w WHERE w.id <> $2 AND w.alive_until > clock_timestamp() AND p.name = ANY (w.provisioners) AND p.name <> ALL (w.open_breakers)
        AND p.digest = coalesce(w.digests[array_position(w.provisioners, p.name)], '')) AS answered
FROM berth.provisioners p WHERE p.name = $3

-- name: ConfigurationBehind :many
SELECT p.provisioner, count(*) AS behind
FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
WHERE p.provisioner = ANY($1::text[]) AND p.digest <> v.digest AND p.desired_phase <> 'absent' AND p.claimed_generation > 0
GROUP BY p.provisioner
ORDER BY p.provisioner

-- name: ConfigurationDisturbed :execrows
UPDATE berth.provisioners SET acts_since = clock_timestamp() WHERE name = $1 AND digest <> $2

-- name: ConfigurationDone :exec
UPDATE berth.provisioners SET rolled_at = NULL WHERE name = $1

-- name: ConfigurationHandOver :execrows
UPDATE berth.provisioners p
SET digest = $1, acts_since = clock_timestamp(), rolled_at = clock_timestamp(), rolled_to = '00000000-0000-0000-0000-000000000000'
WHERE p.name = $2 AND p.digest = $3 AND p.digest <> $1 AND berth.announced(p.name, $1, interval '0')
  AND ($4::boolean OR NOT berth.announced(p.name, p.digest, $5::interval))

-- name: ConfigurationList :many
SELECT p.name, n.digest::text AS digest, (n.digest = p.digest)::boolean AS acts, count(*) AS workers
FROM (SELECT a.name, coalesce(a.digest, '') AS digest
      FROM (SELECT unnest(w.provisioners) AS name, unnest(w.digests) AS digest FROM berth.workers w WHERE w.alive_until > clock_timestamp()) a) n
JOIN berth.provisioners p ON p.name = n.name
WHERE p.name = ANY($1::text[])
GROUP BY p.name, n.digest
ORDER BY p.name, acts DESC, n.digest

-- name: ConfigurationRolled :exec
UPDATE berth.provisioners SET rolled_at = clock_timestamp() - $1::interval, rolled_to = $2 WHERE name = $3

-- name: ConfigurationRollout :one
SELECT least(clock_timestamp() - p.rolled_at, $1::interval)::interval AS since, p.rolled_to FROM berth.provisioners p
WHERE p.name = $2 AND p.digest = $3 AND p.rolled_at IS NOT NULL AND p.paused_at IS NULL FOR NO KEY UPDATE SKIP LOCKED

-- name: PlaceBehind :many
SELECT p.id FROM berth.provisioner_resources p
WHERE p.provisioner = $1 AND p.id > $2 AND p.digest <> $3 AND p.desired_phase <> 'absent'
  AND p.claimed_generation > 0 AND p.claimed_generation = p.generation AND p.paused_at IS NULL AND p.lost < $4::int
ORDER BY p.id LIMIT $5

-- name: PlaceBehindCount :one
SELECT count(*) FILTER (WHERE p.digest <> $1 OR p.fence IS NOT NULL AND EXISTS (SELECT FROM berth.workers w
        WHERE w.id = p.leased_by AND coalesce(w.digests[array_position(w.provisioners, p.provisioner)], '') <> $1)) AS behind,
    count(*) AS places FROM berth.provisioner_resources p
WHERE p.provisioner = $2 AND p.desired_phase <> 'absent' AND p.claimed_generation > 0

-- name: DeletedResourcePrune :one
WITH l AS (
    SELECT t.id, t.provisioner FROM berth.deleted_resources t
    WHERE t.deleted_at >= $1::timestamptz AND t.deleted_at < now() - $2::interval
    ORDER BY t.deleted_at LIMIT $3 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM berth.deleted_resources t USING l WHERE t.id = l.id AND t.provisioner = l.provisioner RETURNING t.deleted_at
)
SELECT count(*) AS n, coalesce(max(g.deleted_at), $1::timestamptz)::timestamptz AS last FROM gone g

-- name: DeploymentDelete :exec
DELETE FROM berth.deployments WHERE id = ANY($1::uuid[])

-- name: DeploymentGet :one
SELECT id, project_id, environment, desired_state, state, created_at, updated_at, organization, project, provisioner, reason, message, slots, version, runtime_instance_id, runtime_host, runtime_audience FROM berth.deployment_details WHERE id = $1

-- name: DeploymentInsert :many
INSERT INTO berth.deployments (id, project_id, environment, desired_state)
SELECT n.id, n.project_id, n.environment, 'running'
FROM (SELECT unnest($1::uuid[]) AS id, unnest($2::uuid[]) AS project_id, unnest($3::text[]) AS environment) AS n
ORDER BY n.id
ON CONFLICT (id) DO NOTHING
RETURNING id

-- name: DeploymentList :many
SELECT id, project_id, environment, desired_state, state, created_at, updated_at, organization, project, provisioner, reason, message, slots, version, runtime_instance_id, runtime_host, runtime_audience FROM berth.deployment_details
WHERE ($1::text IS NULL OR lower(organization) = lower($1::text))
  AND ($2::text IS NULL OR lower(project) = lower($2::text))
  AND ($3::text IS NULL OR state = $3::text)
  AND ($4::text IS NULL OR provisioner = $4::text)
  AND id > $5::uuid
ORDER BY id
LIMIT $6

-- name: DeploymentLock :many
SELECT id, project_id, environment, desired_state, state FROM berth.deployments
WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE

-- name: DeploymentLockDelete :many
SELECT id, project_id, environment, desired_state, state FROM berth.deployments
WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE

-- name: DeploymentSettleRead :many
SELECT d.id, d.desired_state, d.state, p.id AS resource_id, p.provisioner, p.type, p.name, p.desired_phase, p.phase,
    coalesce(berth.paused_by(p.paused_at, v.paused_at, p.desired_phase, d.desired_state), p.reason, '')::text AS reason,
    coalesce(p.observed_generation >= p.intent_generation, false)::boolean AS observed,
    (p.given_up_at IS NOT NULL)::boolean AS given_up,
    coalesce(p.deadline_at <= least(p.paused_at, v.paused_at, clock_timestamp()), false)::boolean AS overdue,
    coalesce(v.seen_at < clock_timestamp() - $1::interval, false)::boolean AS missing
FROM berth.deployments d
LEFT JOIN berth.provisioner_resources p ON p.deployment_id = d.id
LEFT JOIN berth.provisioners v ON v.name = p.provisioner
WHERE d.id = ANY($2::uuid[])
ORDER BY d.id, p.type, p.name, p.created_at

-- name: DeploymentSettleWrite :exec
UPDATE berth.deployments d SET state = n.state, updated_at = now()
FROM (SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS state) AS n
WHERE d.id = n.id

-- name: DeploymentTryLock :many
SELECT id FROM berth.deployments WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED

-- name: DeploymentTryLockDelete :many
SELECT id FROM berth.deployments WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED

-- name: DeploymentWant :many
UPDATE berth.deployments SET desired_state = $1, updated_at = now()
WHERE id = ANY($2::uuid[]) AND desired_state <> $1
RETURNING id

-- name: EventDeleted :many
SELECT DISTINCT e.deployment_id::uuid AS id FROM berth.events e
WHERE e.deployment_id = ANY(ARRAY(SELECT unnest($1::uuid[]))) AND e.kind = 'DeploymentDeleted'
ORDER BY 1

-- name: EventInsert :exec
INSERT INTO berth.events (deployment_id, resource_id, kind, actor, detail)
SELECT nullif(n.deployment_id, '00000000-0000-0000-0000-000000000000'::uuid), nullif(n.resource_id, '00000000-0000-0000-0000-000000000000'::uuid),
    n.kind, $1::text, n.detail
FROM (SELECT unnest($2::uuid[]) AS deployment_id, unnest($3::uuid[]) AS resource_id, unnest($4::text[]) AS kind, unnest($5::jsonb[]) AS detail, generate_subscripts($2::uuid[], 1) AS ord) AS n
ORDER BY n.ord

-- name: EventList :many
SELECT id, at, deployment_id, resource_id, kind, actor, detail FROM berth.events WHERE deployment_id = $1 AND id > $2 ORDER BY id LIMIT $3

-- name: EventPrune :one
WITH l AS (
    SELECT e.id FROM berth.events e
    WHERE e.kind <> 'DeploymentDeleted' AND e.at >= $1::timestamptz AND e.at < now() - $2::interval
    ORDER BY e.at LIMIT $3 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM berth.events e USING l WHERE e.id = l.id RETURNING e.at
)
SELECT count(*) AS n, coalesce(max(g.at), $1::timestamptz)::timestamptz AS last FROM gone g

-- name: OrganizationByName :one
SELECT id, name, default_provisioner, created_at FROM berth.organizations WHERE lower(name) = lower($1)

-- name: OrganizationDelete :exec
DELETE FROM berth.organizations WHERE id = $1

-- name: OrganizationInsert :one
INSERT INTO berth.organizations (name, default_provisioner) VALUES ($1, $2)
ON CONFLICT (lower(name)) DO NOTHING
RETURNING id, name, default_provisioner, created_at

-- name: OrganizationKeep :one
SELECT id, name, default_provisioner, created_at FROM berth.organizations WHERE id = $1 FOR KEY SHARE

-- name: OrganizationList :many
SELECT id, name, default_provisioner, created_at FROM berth.organizations WHERE lower(name) > lower($1) ORDER BY lower(name) LIMIT $2

-- name: OrganizationLockDelete :one
SELECT name FROM berth.organizations WHERE id = $1 FOR UPDATE

-- name: OrganizationUpdate :one
UPDATE berth.organizations SET default_provisioner = nullif($1::text, '') WHERE id = $2
RETURNING id, name, default_provisioner, created_at

-- name: PlaceCurrent :many
SELECT p.id, p.provisioner, p.deployment_id, p.args FROM berth.provisioner_resources p
WHERE p.deployment_id = ANY($1::uuid[]) AND p.desired_phase <> 'absent' AND p.type = $2 AND lower(p.name) = lower($3)
ORDER BY p.id

-- name: PlaceGet :many
SELECT id, provisioner, deployment_id, type, name, desired_phase, phase, reason, message, args, config, generation, observed_generation,
    intent_generation, failures, failing_since, given_up_at, retry_at, deadline_at, paused_at
FROM berth.resource_details WHERE id = $1
ORDER BY desired_phase = 'absent', created_at

-- name: PlaceInsert :exec
INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, name, desired_phase, args, retry_at, deadline_at)
SELECT n.id, n.provisioner, n.deployment_id, n.type, n.name, n.desired_phase, n.args, clock_timestamp() + $1::interval,
    CASE WHEN n.desired_phase = 'ready' THEN clock_timestamp() + n.timeout END
FROM (SELECT unnest($2::uuid[]) AS id, unnest($3::text[]) AS provisioner, unnest($4::interval[]) AS timeout, unnest($5::uuid[]) AS deployment_id, unnest($6::text[]) AS type, unnest($7::text[]) AS name, unnest($8::text[]) AS desired_phase, unnest($9::jsonb[]) AS args) AS n
ORDER BY n.id

-- name: PlaceList :many
SELECT id, provisioner, deployment_id, type, name, desired_phase, phase, reason, message, args, config, generation, observed_generation,
    intent_generation, failures, failing_since, given_up_at, retry_at, deadline_at, paused_at
FROM berth.resource_details WHERE deployment_id = ANY($1::uuid[])
ORDER BY deployment_id, type, name, created_at

-- name: PlaceOverAnnotated :many
SELECT p.deployment_id, n.annotations::bigint AS annotations
FROM berth.provisioner_resources p CROSS JOIN LATERAL (
    SELECT count(*) AS annotations FROM jsonb_object_keys((coalesce(p.args -> 'annotations', '{}'::jsonb) - $1::text[]) || $2::jsonb)) AS n
WHERE p.deployment_id = ANY($3::uuid[]) AND p.desired_phase <> 'absent' AND p.type = $4 AND lower(p.name) = lower($5)
    AND n.annotations > $6::bigint
ORDER BY p.deployment_id LIMIT 1

-- name: PlaceOwners :many
SELECT p.id, p.deployment_id FROM berth.provisioner_resources p WHERE p.id = ANY($1::uuid[]) ORDER BY p.id, p.provisioner

-- name: PlacePage :many
SELECT d.id, d.provisioner, d.deployment_id, d.type, d.name, d.desired_phase, d.phase, d.reason, d.message, d.args, d.config, d.generation,
    d.observed_generation, d.intent_generation, d.failures, d.failing_since, d.given_up_at, d.retry_at, d.deadline_at, d.paused_at
FROM (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.id > $1::uuid
      AND ($2::uuid IS NULL OR p.deployment_id = $2::uuid)
      AND ($3::text IS NULL OR p.provisioner = $3::text)
      AND ($4::text IS NULL OR p.type = $4::text)
      AND ($5::text IS NULL OR p.phase = $5::text)
      AND ($6::text IS NULL OR CASE $6::text WHEN 'Paused' THEN p.paused_at IS NOT NULL
          WHEN 'ProvisionerPaused' THEN EXISTS (SELECT FROM berth.provisioners v WHERE v.name = p.provisioner AND v.paused_at IS NOT NULL)
          ELSE p.reason = $6::text END)
    ORDER BY p.id FETCH FIRST ($7::int) ROWS WITH TIES) page
CROSS JOIN LATERAL (SELECT x.id, x.provisioner, x.deployment_id, x.type, x.name, x.desired_phase, x.phase, x.reason, x.message, x.args, x.config, x.generation, x.observed_generation, x.intent_generation, x.failures, x.failing_since, x.given_up_at, x.retry_at, x.deadline_at, x.paused_at, x.created_at FROM berth.resource_details x WHERE x.id = page.id AND x.provisioner = page.provisioner OFFSET 0) d
ORDER BY d.id

-- name: PlacePatch :many
WITH n AS (
    SELECT p.id, p.provisioner, v.timeout,
        CASE WHEN $2::boolean THEN '{}'::jsonb ELSE p.args END || $3::jsonb
            || CASE WHEN $4::jsonb = '{}'::jsonb AND cardinality($5::text[]) = 0 THEN '{}'::jsonb
               ELSE jsonb_build_object('annotations', (coalesce(p.args -> 'annotations', '{}'::jsonb) - $5::text[]) || $4::jsonb) END AS args
    FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.deployment_id = ANY($6::uuid[]) AND p.desired_phase <> 'absent' AND p.type = $7 AND lower(p.name) = lower($8)
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET args = n.args, updated_at = now(),
    generation = CASE WHEN p.desired_phase = 'ready' THEN p.claimed_generation + 1 ELSE p.generation END,
    intent_generation = CASE WHEN p.desired_phase = 'ready' THEN p.claimed_generation + 1 ELSE p.intent_generation END,
    retry_at = CASE WHEN p.desired_phase = 'ready' THEN clock_timestamp() + $1::interval ELSE p.retry_at END,
    failures = CASE WHEN p.desired_phase = 'ready' THEN 0 ELSE p.failures END,
    failing_since = CASE WHEN p.desired_phase = 'ready' THEN NULL ELSE p.failing_since END,
    given_up_at = CASE WHEN p.desired_phase = 'ready' THEN NULL ELSE p.given_up_at END,
    lost = CASE WHEN p.desired_phase = 'ready' THEN 0 ELSE p.lost END,
    reason = CASE WHEN p.desired_phase = 'ready' THEN '' ELSE p.reason END,
    message = CASE WHEN p.desired_phase = 'ready' THEN '' ELSE p.message END,
    deadline_at = CASE WHEN p.desired_phase = 'ready' THEN clock_timestamp() + n.timeout ELSE p.deadline_at END
FROM n
WHERE p.id = n.id AND p.provisioner = n.provisioner AND p.args <> n.args
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase

-- name: PlacePause :many
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.id = ANY($1::uuid[]) AND p.deployment_id = ANY($2::uuid[]) AND p.paused_at IS NULL
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE
)
UPDATE berth.provisioner_resources p SET paused_at = clock_timestamp()
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id

-- name: PlaceReconcile :many
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.id = ANY($3::uuid[])
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET generation = p.claimed_generation + 1, retry_at = least(p.retry_at, clock_timestamp() + $1::interval), updated_at = now()
FROM l JOIN berth.provisioners v ON v.name = l.provisioner
WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase, (v.seen_at < clock_timestamp() - $2::interval)::boolean AS missing

-- name: PlaceResume :many
WITH l AS (
    SELECT p.id, p.provisioner, least(p.paused_at, v.paused_at) AS stood, coalesce(v.paused_at, clock_timestamp()) AS goes, v.timeout
    FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.id = ANY($1::uuid[]) AND p.deployment_id = ANY($2::uuid[]) AND p.paused_at IS NOT NULL
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET paused_at = NULL, retry_at = CASE WHEN p.claimed_generation < p.generation THEN least(p.retry_at, clock_timestamp()) ELSE p.retry_at END,
    deadline_at = CASE WHEN p.deadline_at IS NOT NULL THEN l.goes + least(p.deadline_at - l.stood, l.timeout) END
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase, (p.claimed_generation < p.generation)::boolean AS waiting

-- name: PlaceResumed :exec
WITH l AS (
    SELECT p.id, p.provisioner, least(p.paused_at, $1::timestamptz) AS stood, coalesce(p.paused_at, clock_timestamp()) AS goes, v.timeout
    FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.provisioner = $2 AND (p.deadline_at IS NOT NULL OR p.claimed_generation < p.generation)
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET retry_at = CASE WHEN p.claimed_generation < p.generation THEN least(p.retry_at, clock_timestamp()) ELSE p.retry_at END,
    deadline_at = CASE WHEN p.deadline_at IS NOT NULL THEN l.goes + least(p.deadline_at - l.stood, l.timeout) END
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner

-- name: PlaceWish :many
WITH l AS (
    SELECT p.id, p.provisioner, CASE WHEN p.desired_phase = 'absent' OR n.phase = '' THEN p.desired_phase ELSE n.phase END AS desired_phase
    FROM berth.provisioner_resources p
    JOIN (SELECT unnest($2::uuid[]) AS deployment_id, unnest($3::text[]) AS phase) AS n ON n.deployment_id = p.deployment_id
    WHERE (p.desired_phase <> 'absent' AND n.phase <> '' AND p.desired_phase <> n.phase)
       OR p.given_up_at IS NOT NULL OR p.failures > 0 OR p.deadline_at <= clock_timestamp()
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET desired_phase = l.desired_phase, generation = p.claimed_generation + 1, intent_generation = p.claimed_generation + 1,
    retry_at = clock_timestamp() + $1::interval, failures = 0, failing_since = NULL, given_up_at = NULL, lost = 0, reason = '', message = '',
    deadline_at = CASE WHEN l.desired_phase = 'ready' THEN clock_timestamp() + v.timeout END, updated_at = now()
FROM l JOIN berth.provisioners v ON v.name = l.provisioner
WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase

-- name: PlaceWishAbsent :many
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.deployment_id = ANY($2::uuid[])
      AND ($3::text IS NULL OR (p.type = $3::text AND lower(p.name) = lower($4::text)))
      AND (p.desired_phase <> 'absent' OR p.given_up_at IS NOT NULL OR p.failures > 0)
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET desired_phase = 'absent', generation = p.claimed_generation + 1, intent_generation = p.claimed_generation + 1,
    retry_at = clock_timestamp() + $1::interval, failures = 0, failing_since = NULL, given_up_at = NULL, lost = 0, reason = '', message = '',
    deadline_at = NULL, updated_at = now()
FROM l
WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase

-- name: PlaceWishRestarted :many
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.id = ANY($2::uuid[]) AND p.desired_phase = 'hibernated'
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p
)
UPDATE berth.provisioner_resources p
SET desired_phase = 'ready', generation = p.claimed_generation + 1, intent_generation = p.claimed_generation + 1,
    retry_at = clock_timestamp() + $1::interval, failures = 0, failing_since = NULL, given_up_at = NULL, lost = 0, reason = '', message = '',
    deadline_at = clock_timestamp() + v.timeout, updated_at = now()
FROM l JOIN berth.provisioners v ON v.name = l.provisioner
WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase

-- name: ProjectByName :one
SELECT p.id, p.organization_id, p.name, p.provisioner, p.slots, p.version, p.annotations, p.created_at, o.name AS organization
FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id
WHERE lower(o.name) = lower($1) AND lower(p.name) = lower($2)

-- name: ProjectDelete :exec
DELETE FROM berth.projects WHERE id = ANY($1::uuid[])

-- name: ProjectDeployments :one
SELECT count(*) AS deployments, count(*) FILTER (WHERE d.desired_state = 'deleted') AS deleting
FROM berth.deployments d WHERE d.project_id = ANY($1::uuid[])

-- name: ProjectInsert :one
INSERT INTO berth.projects (organization_id, name, provisioner, slots, version, annotations)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (organization_id, lower(name)) DO NOTHING
RETURNING id, organization_id, name, provisioner, slots, version, annotations, created_at

-- name: ProjectList :many
SELECT p.id, p.name, p.provisioner, p.slots, p.version, p.annotations, p.created_at, o.name AS organization
FROM berth.organizations o CROSS JOIN LATERAL (
    SELECT x.id, x.organization_id, x.name, x.provisioner, x.slots, x.version, x.annotations, x.created_at FROM berth.projects x
    WHERE x.organization_id = o.id AND lower(x.name) > CASE WHEN lower(o.name) = lower($1) THEN lower($2) ELSE '' END
    ORDER BY lower(x.name) LIMIT $3) p
WHERE lower(o.name) >= lower($1)
ORDER BY lower(o.name), lower(p.name) LIMIT $3

-- name: ProjectLock :one
SELECT p.id, p.organization_id, p.name, p.provisioner, p.slots, p.version, p.annotations, p.created_at, o.name AS organization
FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id
WHERE p.id = $1
FOR NO KEY UPDATE OF p

-- name: ProjectLockDelete :many
SELECT p.id, p.name, o.name AS organization
FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id
WHERE p.id = $1 OR p.organization_id = $1
ORDER BY p.id
FOR UPDATE OF p

-- name: ProjectSettings :many
SELECT p.id, p.name, o.name AS organization, p.provisioner, o.default_provisioner, p.slots, p.version, p.annotations
FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id
WHERE p.id = ANY(ARRAY(SELECT unnest($1::uuid[])))
ORDER BY p.id
FOR KEY SHARE OF p

-- name: ProjectUpdate :exec
UPDATE berth.projects SET provisioner = $1, slots = $2, version = $3, annotations = $4 WHERE id = $5

-- name: ProvisionerDefaultAnnounced :one
SELECT EXISTS (SELECT FROM berth.workers w WHERE w.alive_until > clock_timestamp() AND w.default_provisioner = $1::text)::boolean AS announced

-- name: ProvisionerDefaultClear :exec
UPDATE berth.provisioners SET is_default = false WHERE is_default AND name <> $1

-- name: ProvisionerDefaultSet :execrows
UPDATE berth.provisioners SET is_default = true WHERE name = $1 AND NOT is_default

-- name: ProvisionerDefaultSilent :one
SELECT EXISTS (SELECT FROM berth.provisioners p WHERE p.is_default AND p.name <> $1 AND NOT EXISTS (
    SELECT FROM berth.workers w WHERE w.alive_until > clock_timestamp() - $2::interval
        AND (w.default_provisioner = p.name OR w.default_provisioner IS NULL AND p.name = ANY (w.provisioners))))::boolean AS silent

-- name: ProvisionerDescribe :exec
UPDATE berth.provisioners SET supports = string_to_array($1::text, ','), timeout = $2
WHERE name = $3 AND digest = $4 AND (supports, timeout) IS DISTINCT FROM (string_to_array($1::text, ','), $2::interval)

-- name: ProvisionerList :many
SELECT p.name, p.type, p.supports, p.is_default, p.timeout, p.seen_at, p.digest, p.acts_since, (p.rolled_at IS NOT NULL)::boolean AS rolling,
    (p.seen_at < clock_timestamp() - $1::interval)::boolean AS missing,
    (p.paused_at IS NOT NULL)::boolean AS paused,
    EXISTS (SELECT FROM berth.workers w WHERE w.alive_until > clock_timestamp() AND p.name = ANY(w.open_breakers))::boolean AS breaker_open
FROM berth.provisioners p
WHERE p.name > $2
ORDER BY p.name LIMIT $3

-- name: ProvisionerMissing :many
SELECT p.name, count(*) AS places FROM berth.provisioners p JOIN berth.provisioner_resources r ON r.provisioner = p.name
WHERE p.seen_at < clock_timestamp() - $1::interval
GROUP BY p.name ORDER BY p.name

-- name: ProvisionerPause :execrows
UPDATE berth.provisioners SET paused_at = clock_timestamp() WHERE name = $1 AND paused_at IS NULL

-- name: ProvisionerPlaces :many
SELECT n.name::text AS provisioner, (SELECT count(*) FROM berth.provisioner_resources r WHERE r.provisioner = n.name) AS places
FROM unnest($1::text[]) AS n (name) ORDER BY n.name

-- name: ProvisionerRegister :many
INSERT INTO berth.provisioners (name, type, supports, timeout)
SELECT n.name, n.type, string_to_array(n.supports, ','), n.timeout
FROM (SELECT unnest($1::text[]) AS name, unnest($2::text[]) AS type, unnest($3::text[]) AS supports, unnest($4::interval[]) AS timeout) AS n
ORDER BY n.name
ON CONFLICT (name) DO NOTHING
RETURNING name

-- name: ProvisionerRegistering :exec
SELECT pg_advisory_xact_lock($1::bigint)

-- name: ProvisionerResume :one
UPDATE berth.provisioners v SET paused_at = NULL
FROM (SELECT o.name, o.paused_at FROM berth.provisioners o WHERE o.name = $1 AND o.paused_at IS NOT NULL FOR NO KEY UPDATE) o
WHERE v.name = o.name
RETURNING o.paused_at::timestamptz AS since

-- name: ProvisionerRetyped :many
SELECT p.name, p.type, n.type::text AS wanted,
    (SELECT count(*) FROM berth.provisioner_resources r WHERE r.provisioner = p.name) AS places
FROM (SELECT unnest($1::text[]) AS name, unnest($2::text[]) AS type) AS n
JOIN berth.provisioners p ON p.name = n.name AND p.type <> n.type
ORDER BY p.name

-- name: ProvisionerSeen :exec
UPDATE berth.provisioners SET seen_at = clock_timestamp()
WHERE name IN (SELECT l.name FROM berth.provisioners l WHERE l.name = ANY($1::text[]) AND l.seen_at < clock_timestamp() - $2::interval
    ORDER BY l.name FOR NO KEY UPDATE SKIP LOCKED)

-- name: PlaceClaim :many

SELECT c.held::boolean AS held, c.taken_over, c.id::uuid AS id, c.provisioner::text AS provisioner, c.deployment_id, c.type, c.name, c.desired_phase, c.phase, c.args, c.state, c.config,
    c.fence::uuid AS fence, c.failures, c.lost, coalesce(c.deadline_at <= clock_timestamp(), false)::boolean AS overdue
FROM berth.claim($1::uuid[], $2::text[], $3::uuid[], $4::uuid, $5::interval, $6::interval, $7::boolean, $8::interval) c

-- name: PlaceDeployment :one
SELECT deployment_id FROM berth.provisioner_resources WHERE id = $1 AND provisioner = $2

-- name: PlaceDispatch :many
WITH due AS (
    SELECT p.id, p.provisioner, p.retry_at, v.seen_at < clock_timestamp() - $4::interval AS missing
    FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.retry_at <= now() AND p.provisioner <> ALL ($5::text[])
      AND (p.fence IS NULL OR p.leased_until <= clock_timestamp() OR ($6::boolean AND NOT berth.lease_live(p.leased_by, p.leased_until, $7::interval)))
      AND (p.desired_phase = 'absent' OR NOT EXISTS (SELECT FROM berth.provisioner_resources s
            WHERE s.id = p.id AND s.provisioner <> p.provisioner AND s.desired_phase = 'absent' AND s.deployment_id IS NOT NULL))
      AND berth.paused_by(p.paused_at, v.paused_at, p.desired_phase, (SELECT d.desired_state FROM berth.deployments d WHERE d.id = p.deployment_id)) IS NULL
      AND (p.deployment_id IS NULL OR EXISTS (SELECT FROM berth.deployments d WHERE d.id = p.deployment_id FOR NO KEY UPDATE SKIP LOCKED))
    ORDER BY p.retry_at LIMIT $8 FOR NO KEY UPDATE OF p SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET generation = p.claimed_generation + 1,
    retry_at = clock_timestamp() + CASE WHEN p.fence IS NULL
        THEN greatest($1::interval, least($2::interval, (clock_timestamp() - p.updated_at) / 2))
        ELSE greatest($3::interval, least($2::interval, (clock_timestamp() - (SELECT w.alive_until FROM berth.workers w WHERE w.id = p.leased_by)) / 2)) END
FROM due WHERE p.id = due.id AND p.provisioner = due.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase, berth.background(p.deployment_id, p.observed_generation, p.intent_generation, p.deadline_at)::boolean AS background, due.missing::boolean AS missing, due.retry_at::timestamptz AS due_at

-- name: PlaceDrop :many
WITH o AS (
    SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS provisioner, unnest($3::uuid[]) AS fence
), l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    JOIN o ON o.id = p.id AND o.provisioner = p.provisioner AND o.fence = p.fence
    WHERE p.desired_phase = 'absent' AND p.claimed_generation >= p.intent_generation
      AND (p.deployment_id IS NULL OR p.deployment_id = ANY($4::uuid[]))
    ORDER BY p.id, p.provisioner FOR UPDATE OF p SKIP LOCKED
), gone AS (
    DELETE FROM berth.provisioner_resources p USING l
    WHERE p.id = l.id AND p.provisioner = l.provisioner
    RETURNING p.fence, p.id, p.provisioner, p.deployment_id, p.type, p.config
), proof AS (
    INSERT INTO berth.deleted_resources (id, provisioner) SELECT g.id, g.provisioner FROM gone g ON CONFLICT DO NOTHING
)
SELECT g.fence::uuid AS fence, g.id, g.provisioner, g.deployment_id, g.type, g.config FROM gone g

-- name: PlaceGiveBack :exec
WITH o AS (
    SELECT unnest($2::uuid[]) AS id, unnest($3::uuid[]) AS fence, unnest($4::jsonb[]) AS state
), l AS (
    SELECT p.id, p.provisioner, o.state FROM berth.provisioner_resources p
    JOIN o ON o.id = p.id AND o.fence = p.fence
    ORDER BY p.id, p.provisioner FOR NO KEY UPDATE OF p SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET fence = NULL, leased_by = NULL, leased_until = NULL, generation = p.claimed_generation + 1, retry_at = clock_timestamp() + $1::interval,
    state = coalesce(l.state, p.state)
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner

-- name: PlaceHolds :many
SELECT p.fence::uuid AS fence FROM berth.provisioner_resources p WHERE p.id = ANY($1::uuid[]) AND p.fence = ANY($2::uuid[])

-- name: PlaceHopeless :many
SELECT p.id FROM berth.provisioner_resources p
WHERE p.provisioner = $1 AND p.given_up_at IS NOT NULL AND p.fence IS NULL AND p.lost < $2::int
ORDER BY p.id

-- name: PlaceHurry :execrows
WITH l AS (
    SELECT p.id, p.provisioner, v.timeout FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.provisioner = $1 AND p.fence IS NULL
      AND (p.retry_at > clock_timestamp() AND (p.claimed_generation < p.generation OR p.reason = 'BackendUnavailable')
           OR p.retry_at IS NOT NULL AND p.reason = 'BackendUnavailable' AND p.desired_phase = 'ready' AND p.deadline_at IS NULL)
    ORDER BY p.retry_at LIMIT $2 FOR NO KEY UPDATE OF p SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET retry_at = least(p.retry_at, clock_timestamp()),
    deadline_at = CASE WHEN p.reason = 'BackendUnavailable' AND p.desired_phase = 'ready' THEN coalesce(p.deadline_at, clock_timestamp() + l.timeout) ELSE p.deadline_at END
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner

-- name: PlaceOrphaned :many
WITH o AS MATERIALIZED (
    SELECT x.id, x.provisioner FROM berth.provisioner_resources x
    WHERE x.leased_by = ANY($1::uuid[]) AND (x.leased_by <> ALL($2::uuid[]) OR x.id = ANY($3::uuid[]))
      AND x.leased_until > clock_timestamp()
), l AS MATERIALIZED (
    SELECT x.id, x.provisioner FROM berth.provisioner_resources x JOIN o USING (id, provisioner)
    WHERE x.leased_by = ANY($1::uuid[]) AND NOT berth.lease_live(x.leased_by, x.leased_until, $4::interval)
    ORDER BY x.id, x.provisioner FOR NO KEY UPDATE OF x SKIP LOCKED
), u AS (
    UPDATE berth.provisioner_resources p SET leased_until = clock_timestamp(), retry_at = clock_timestamp()
    FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
)
SELECT DISTINCT o.id FROM o WHERE NOT EXISTS (SELECT FROM l WHERE l.id = o.id AND l.provisioner = o.provisioner) ORDER BY o.id

-- name: PlaceOverdue :many
WITH late AS MATERIALIZED (
    SELECT DISTINCT p.deployment_id FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.deadline_at <= now() AND p.deadline_at > now() - $2::interval AND p.deadline_at <= least(p.paused_at, v.paused_at, now())
    ORDER BY p.deployment_id
)
SELECT d.id FROM late CROSS JOIN LATERAL (
    SELECT x.id FROM berth.deployments x
    WHERE x.id = late.deployment_id AND x.desired_state = 'running' AND x.state <> 'errored' FOR NO KEY UPDATE SKIP LOCKED) d
LIMIT $1

-- name: PlaceProbe :many
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
    WHERE p.provisioner = $2 AND p.retry_at IS NOT NULL AND p.fence IS NULL
      AND (p.claimed_generation < p.generation OR p.reason = 'BackendUnavailable')
      AND berth.paused_by(p.paused_at, v.paused_at, p.desired_phase, (SELECT d.desired_state FROM berth.deployments d WHERE d.id = p.deployment_id)) IS NULL
      AND NOT berth.blocked(p.id, p.provisioner, p.desired_phase)
    ORDER BY berth.background(p.deployment_id, p.observed_generation, p.intent_generation, p.deadline_at), p.retry_at
    LIMIT 1 FOR NO KEY UPDATE OF p SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET generation = p.claimed_generation + 1, retry_at = clock_timestamp() + $1::interval
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, berth.background(p.deployment_id, p.observed_generation, p.intent_generation, p.deadline_at)::boolean AS background

-- name: PlaceStore :many
WITH o AS (
    SELECT unnest($2::uuid[]) AS id, unnest($3::text[]) AS provisioner, unnest($4::uuid[]) AS fence,
        unnest($5::text[]) AS phase, unnest($6::text[]) AS reason, unnest($7::text[]) AS message,
        unnest($8::jsonb[]) AS state, unnest($9::jsonb[]) AS config, unnest($10::text[]) AS digest,
        unnest($11::boolean[]) AS met, unnest($12::boolean[]) AS failed, unnest($13::boolean[]) AS given_up,
        unnest($14::boolean[]) AS waits, unnest($15::boolean[]) AS down, unnest($16::boolean[]) AS gone, unnest($17::boolean[]) AS aside, unnest($18::interval[]) AS retry
), l AS (
    -- Each looked up by its key, whatever the planner believes of the table.
    SELECT o.id, o.provisioner, o.fence, o.phase, o.reason, o.message, o.state, o.config, o.digest, o.met, o.failed, o.given_up, o.waits, o.down, o.gone, o.aside, o.retry, x.old_phase, x.old_state, x.old_config, x.current, x.was_met
    FROM (SELECT id, provisioner, fence, phase, reason, message, state, config, digest, met, failed, given_up, waits, down, gone, aside, retry FROM o ORDER BY o.id, o.provisioner) o
    CROSS JOIN LATERAL (
        SELECT p.phase AS old_phase, p.state AS old_state, p.config AS old_config,
            p.claimed_generation >= p.intent_generation AS current, p.observed_generation >= p.intent_generation AS was_met
        FROM berth.provisioner_resources p
        WHERE p.id = o.id AND p.provisioner = o.provisioner AND p.fence = o.fence
          AND (p.deployment_id IS NULL OR p.deployment_id = ANY($19::uuid[]))
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
    retry_at = CASE WHEN p.generation > p.claimed_generation THEN clock_timestamp() + $1::interval WHEN l.retry >= interval '0' THEN clock_timestamp() + l.retry END,
    lost = CASE WHEN l.aside THEN p.lost ELSE 0 END,
    fence = NULL, leased_by = NULL, leased_until = NULL, updated_at = now()
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING l.fence::uuid AS fence, p.id, p.provisioner, p.deployment_id, p.type, p.desired_phase, p.phase, p.config,
    (p.generation > p.claimed_generation)::boolean AS moved, l.current::boolean AS current, (l.current AND l.met)::boolean AS met, l.was_met::boolean AS was_met,
    l.old_phase, (l.old_config IS DISTINCT FROM p.config)::boolean AS config_changed, (l.old_state IS DISTINCT FROM p.state)::boolean AS state_changed

-- name: PlaceStrand :many
UPDATE berth.provisioner_resources p
SET deployment_id = CASE WHEN p.desired_phase = 'absent' THEN NULL ELSE p.deployment_id END,
    reason = 'ProvisionerMissing', message = $1, claimed_generation = p.generation, fence = NULL, leased_by = NULL, leased_until = NULL,
    retry_at = clock_timestamp() + $2::interval, updated_at = now()
FROM berth.provisioners v
WHERE p.id = $3 AND p.provisioner = $4 AND (p.fence IS NULL OR p.leased_until <= clock_timestamp())
  AND (p.deployment_id IS NULL OR p.deployment_id = ANY($5::uuid[]))
  AND v.name = p.provisioner AND v.seen_at < clock_timestamp() - $6::interval
RETURNING p.id, p.provisioner, p.desired_phase

-- name: PlaceUnavailable :execrows
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.provisioner = $2 AND p.retry_at IS NOT NULL AND p.fence IS NULL AND p.given_up_at IS NULL
      AND (p.observed_generation < p.intent_generation OR p.phase <> p.desired_phase)
      AND (p.reason = 'BackendUnavailable' AND p.deadline_at > clock_timestamp()
           OR p.reason <> 'BackendUnavailable' AND p.claimed_generation < p.generation AND p.updated_at < clock_timestamp() - $3::interval)
    ORDER BY p.id LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET reason = 'BackendUnavailable', message = $1, deadline_at = CASE WHEN p.deadline_at <= clock_timestamp() THEN p.deadline_at END
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner

-- name: PlaceUnwoken :many
SELECT p.id FROM berth.provisioner_resources p
WHERE p.id = ANY($1::uuid[]) AND p.provisioner = $2 AND p.claimed_generation = p.generation
ORDER BY p.id

-- name: PlaceWaiting :many
SELECT p.id, p.provisioner, p.deployment_id, p.desired_phase, berth.background(p.deployment_id, p.observed_generation, p.intent_generation, p.deadline_at)::boolean AS background FROM berth.provisioner_resources p
WHERE p.id = ANY($1::uuid[]) AND p.claimed_generation < p.generation
ORDER BY p.id, p.provisioner

-- name: PlaceWake :many
WITH l AS (
    SELECT p.id, p.provisioner FROM berth.provisioner_resources p
    WHERE p.id = ANY($2::uuid[]) AND p.provisioner = $3 AND p.claimed_generation = p.generation
    ORDER BY p.id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE berth.provisioner_resources p
SET generation = p.generation + 1, retry_at = least(p.retry_at, clock_timestamp() + $1::interval), updated_at = now()
FROM l WHERE p.id = l.id AND p.provisioner = l.provisioner
RETURNING p.id, p.provisioner, p.deployment_id, p.desired_phase, berth.background(p.deployment_id, p.observed_generation, p.intent_generation, p.deadline_at)::boolean AS background

-- name: WorkerBeat :execrows
INSERT INTO berth.workers AS w (id, version, provisioners, digests, default_provisioner, open_breakers, alive_until)
VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7::interval)
ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until, open_breakers = excluded.open_breakers WHERE w.alive_until > clock_timestamp()

-- name: WorkerCounts :many
SELECT p.name::text AS provisioner, count(*) AS workers
FROM berth.workers w, unnest(w.provisioners) AS p(name)
WHERE w.alive_until > clock_timestamp()
GROUP BY p.name
ORDER BY p.name

-- name: WorkerDead :many
SELECT w.id FROM berth.workers w
WHERE w.alive_until <= clock_timestamp() AND w.alive_until > clock_timestamp() - $1::interval
ORDER BY w.id

-- name: WorkerEnd :exec
UPDATE berth.workers SET alive_until = least(alive_until, clock_timestamp()) WHERE id = $1

-- name: WorkerPrune :exec
DELETE FROM berth.workers w WHERE w.alive_until < clock_timestamp() - $1::interval
    AND NOT EXISTS (SELECT FROM berth.provisioner_resources r WHERE r.leased_by = w.id)

-- name: Static_explain_1
SELECT s.resource_id, coalesce(s.host, ''), s.slots, s.wanted FROM berth.static_slots s
			WHERE s.provisioner = $1 AND s.ticket IS NOT NULL ORDER BY s.ticket

-- name: Static_group_1
SELECT lost, host, url, audience, data_dir, slots, wanted, failed_pings, unhealthy, largest, served
			FROM berth.static_take($1, $2, $3, $4, $5, $6)

-- name: Static_look_1
SELECT x.id FROM berth.provisioner_resources x
		JOIN berth.static_slots s ON s.resource_id = x.id AND s.provisioner = x.provisioner
		WHERE x.provisioner = $1 AND x.reason = 'NoCapacity' AND s.ticket IS NULL
		ORDER BY x.id

-- name: Static_look_2
SELECT s.resource_id, o.host, o.url, o.audience, o.data_dir, s.slots, s.wanted, o.failed_pings, o.unhealthy_since IS NOT NULL
		FROM berth.static_slots s LEFT JOIN berth.static_runtimes o ON o.provisioner = s.provisioner AND o.host = s.host
		WHERE s.provisioner = $1 AND s.resource_id = ANY ($2)

-- name: Static_look_3
SELECT o.provisioner, o.host, o.url, o.audience, o.data_dir, o.slots, o.used, o.failed_pings, o.cordoned_at IS NOT NULL, o.unhealthy_since, o.removed_at IS NOT NULL
		FROM berth.static_runtimes o WHERE o.provisioner = ANY ($1) AND (o.removed_at IS NULL OR o.used > 0) ORDER BY o.provisioner, o.host

-- name: Static_look_4
SELECT count(*) FROM berth.static_slots s WHERE s.provisioner = $1 AND s.ticket IS NOT NULL

-- name: Static_look_5
UPDATE berth.static_runtimes o SET cordoned_at = CASE WHEN $3 THEN coalesce(o.cordoned_at, now()) END
		WHERE o.provisioner = $1 AND o.host = $2

-- name: Static_store_1
SELECT berth.static_declare($1, $2, $3)

-- name: Static_store_2
SELECT berth.static_report($1, $2, $3, $4, $5)

-- name: Static_store_3
SELECT berth.static_assign($1, $2)

