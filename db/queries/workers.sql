-- name: WorkerBeat :execrows
-- An id that was declared dead stays dead: others may have taken over. 0 rows then.
INSERT INTO berth.workers AS w (id, version, provisioners, digests, default_provisioner, open_breakers, alive_until)
VALUES (@id, @version, @provisioners, @digests, @default_provisioner, @open_breakers, clock_timestamp() + @alive::interval)
ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until, open_breakers = excluded.open_breakers WHERE w.alive_until > clock_timestamp();

-- name: WorkerEnd :exec
-- Dead from now on: what it held may be taken over at once.
UPDATE berth.workers SET alive_until = least(alive_until, clock_timestamp()) WHERE id = @id;

-- name: WorkerPrune :exec
-- Only rows that no lease can name any more: an unknown worker counts as alive.
DELETE FROM berth.workers w WHERE w.alive_until < clock_timestamp() - @older::interval
    AND NOT EXISTS (SELECT FROM berth.provisioner_resources r WHERE r.leased_by = w.id);

-- name: WorkerDead :many
-- Who died within this time.
SELECT w.id FROM berth.workers w
WHERE w.alive_until <= clock_timestamp() AND w.alive_until > clock_timestamp() - @within::interval
ORDER BY w.id;

-- name: WorkerCounts :many
-- How many live workers have each provisioner.
SELECT p.name::text AS provisioner, count(*) AS workers
FROM berth.workers w, unnest(w.provisioners) AS p(name)
WHERE w.alive_until > clock_timestamp()
GROUP BY p.name
ORDER BY p.name;
