-- name: InstallationID :one
SELECT i.id FROM berth.installation i;
