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
SELECT sqlc.embed(p), o.name AS organization
FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id
ORDER BY lower(o.name), lower(p.name);

-- name: ProjectSettings :many
-- What new deployments of these projects take from them and from their organizations. The projects stay until the transaction
-- ends.
SELECT p.id, p.name, o.name AS organization, p.provisioner, o.default_provisioner, p.slots, p.version, p.annotations
FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id
WHERE p.id = ANY(@ids::uuid[])
ORDER BY p.id
FOR KEY SHARE OF p;
