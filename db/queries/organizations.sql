-- name: OrganizationInsert :one
INSERT INTO berth.organizations (name, default_provisioner) VALUES (@name, sqlc.narg(default_provisioner))
ON CONFLICT (lower(name)) DO NOTHING
RETURNING *;

-- name: OrganizationByName :one
SELECT * FROM berth.organizations WHERE lower(name) = lower(@name);

-- name: OrganizationList :many
SELECT * FROM berth.organizations WHERE lower(name) > lower(@after) ORDER BY lower(name) LIMIT @most;

-- name: OrganizationKeep :one
-- It stays until the transaction ends.
SELECT * FROM berth.organizations WHERE id = @id FOR KEY SHARE;

-- name: OrganizationUpdate :one
-- An empty default is none.
UPDATE berth.organizations SET default_provisioner = nullif(@default_provisioner::text, '') WHERE id = @id
RETURNING *;

-- name: OrganizationLockDelete :one
-- Nobody adds a project to it any more.
SELECT name FROM berth.organizations WHERE id = @id FOR UPDATE;

-- name: OrganizationDelete :exec
DELETE FROM berth.organizations WHERE id = @id;
