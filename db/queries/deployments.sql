-- name: DeploymentInsert :many
-- In the order of their ids, so that two callers with the same ids wait for each other and never deadlock.
INSERT INTO berth.deployments (id, project_id, environment, desired_state)
SELECT n.id, n.project_id, n.environment, 'running'
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@project_ids::uuid[]) AS project_id, unnest(@environments::text[]) AS environment) AS n
ORDER BY n.id
ON CONFLICT (id) DO NOTHING
RETURNING id;

-- name: DeploymentLock :many
-- Taken before any place of theirs is read or written.
SELECT id, project_id, environment, desired_state, state FROM berth.deployments
WHERE id = ANY(@ids::uuid[]) ORDER BY id FOR NO KEY UPDATE;

-- name: DeploymentLockDelete :many
-- The same for what may end with their rows being deleted: the stronger lock from the start, never an upgrade.
SELECT id, project_id, environment, desired_state, state FROM berth.deployments
WHERE id = ANY(@ids::uuid[]) ORDER BY id FOR UPDATE;

-- name: DeploymentTryLock :many
SELECT id FROM berth.deployments WHERE id = ANY(@ids::uuid[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;

-- name: DeploymentTryLockDelete :many
SELECT id FROM berth.deployments WHERE id = ANY(@ids::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: DeploymentWant :many
UPDATE berth.deployments SET desired_state = @desired_state, updated_at = now()
WHERE id = ANY(@ids::uuid[]) AND desired_state <> @desired_state
RETURNING id;

-- name: DeploymentSettleRead :many
-- Everything that the state of a deployment follows from, one row a place. The deployments are locked.
SELECT d.id, d.desired_state, d.state, p.id AS resource_id, p.provisioner, p.type, p.name, p.desired_phase, p.phase,
    coalesce(berth.paused_by(p.paused_at, v.paused_at, p.desired_phase, d.desired_state), p.reason, '')::text AS reason,
    coalesce(p.observed_generation >= p.intent_generation, false)::boolean AS observed,
    (p.given_up_at IS NOT NULL)::boolean AS given_up,
    coalesce(p.deadline_at <= least(p.paused_at, v.paused_at, clock_timestamp()), false)::boolean AS overdue,
    coalesce(v.seen_at < clock_timestamp() - @missing_for::interval, false)::boolean AS missing
FROM berth.deployments d
LEFT JOIN berth.provisioner_resources p ON p.deployment_id = d.id
LEFT JOIN berth.provisioners v ON v.name = p.provisioner
WHERE d.id = ANY(@ids::uuid[])
ORDER BY d.id, p.type, p.name, p.created_at;

-- name: DeploymentSettleWrite :exec
UPDATE berth.deployments d SET state = n.state, updated_at = now()
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@states::text[]) AS state) AS n
WHERE d.id = n.id;

-- name: DeploymentDelete :exec
DELETE FROM berth.deployments WHERE id = ANY(@ids::uuid[]);

-- name: DeploymentGet :one
SELECT * FROM berth.deployment_details WHERE id = @id;

-- name: DeploymentList :many
SELECT * FROM berth.deployment_details
WHERE (sqlc.narg(organization)::text IS NULL OR lower(organization) = lower(sqlc.narg(organization)::text))
  AND (sqlc.narg(project)::text IS NULL OR lower(project) = lower(sqlc.narg(project)::text))
  AND (sqlc.narg(state)::text IS NULL OR state = sqlc.narg(state)::text)
  AND (sqlc.narg(provisioner)::text IS NULL OR provisioner = sqlc.narg(provisioner)::text)
  AND id > @after::uuid
ORDER BY id
LIMIT @most;
