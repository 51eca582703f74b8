-- name: ProjectInsert :one
INSERT INTO berth.projects (organization_id, name, provisioner, slots, version, annotations)
VALUES (@organization_id, @name, sqlc.narg(provisioner), @slots, @version, @annotations)
ON CONFLICT (organization_id, lower(name)) DO NOTHING
RETURNING *;

-- name: ProjectByName :one
SELECT sqlc.embed(p), o.name AS organization
FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id
WHERE lower(o.name) = lower(@organization) AND lower(p.name) = lower(@name);

-- name: ProjectList :many
-- Each organization gives a page of its projects at most, in the order of an index, so no page sorts more than two of them.
SELECT p.id, p.name, p.provisioner, p.slots, p.version, p.annotations, p.created_at, o.name AS organization
FROM berth.organizations o CROSS JOIN LATERAL (
    SELECT x.* FROM berth.projects x
    WHERE x.organization_id = o.id AND lower(x.name) > CASE WHEN lower(o.name) = lower(@after_organization) THEN lower(@after_name) ELSE '' END
    ORDER BY lower(x.name) LIMIT @most) p
WHERE lower(o.name) >= lower(@after_organization)
ORDER BY lower(o.name), lower(p.name) LIMIT @most;

-- name: ProjectSettings :many
-- What new deployments of these projects take from them and from their organizations. The projects stay until the transaction
-- ends. The planner is not shown how many ids there are, so a session plans it once: that takes longer than running it.
SELECT p.id, p.name, o.name AS organization, p.provisioner, o.default_provisioner, p.slots, p.version, p.annotations
FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id
WHERE p.id = ANY(ARRAY(SELECT unnest(@ids::uuid[])))
ORDER BY p.id
FOR KEY SHARE OF p;

-- name: ProjectLock :one
SELECT sqlc.embed(p), o.name AS organization
FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id
WHERE p.id = @id
FOR NO KEY UPDATE OF p;

-- name: ProjectUpdate :exec
-- The row is locked by the caller. No provisioner is the organization's, or the default.
UPDATE berth.projects SET provisioner = sqlc.narg(provisioner), slots = @slots, version = @version, annotations = @annotations WHERE id = @id;

-- name: ProjectLockDelete :many
-- One project, or all of an organization: whose id it is. Nobody adds a deployment to them any more.
SELECT p.id, p.name, o.name AS organization
FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id
WHERE p.id = @id OR p.organization_id = @id
ORDER BY p.id
FOR UPDATE OF p;

-- name: ProjectDeployments :one
-- How many deployments these projects have, and how many of them are on their way out.
SELECT count(*) AS deployments, count(*) FILTER (WHERE d.desired_state = 'deleted') AS deleting
FROM berth.deployments d WHERE d.project_id = ANY(@projects::uuid[]);

-- name: ProjectDelete :exec
DELETE FROM berth.projects WHERE id = ANY(@ids::uuid[]);
