-- name: OrganizationInsert :one
INSERT INTO berth.organizations (name, default_provisioner) VALUES (@name, sqlc.narg(default_provisioner))
ON CONFLICT (lower(name)) DO NOTHING
RETURNING *;

-- name: OrganizationByName :one
SELECT * FROM berth.organizations WHERE lower(name) = lower(@name);

-- name: OrganizationList :many
SELECT * FROM berth.organizations ORDER BY lower(name);

-- name: OrganizationGet :one
SELECT * FROM berth.organizations WHERE id = @id;
