-- name: ProvisionerList :many
SELECT p.name, p.type, p.supports, p.is_default, p.timeout, p.seen_at, p.digest, p.acts_since, (p.rolled_at IS NOT NULL)::boolean AS rolling,
    (p.seen_at < clock_timestamp() - @missing_for::interval)::boolean AS missing,
    (p.paused_at IS NOT NULL)::boolean AS paused,
    EXISTS (SELECT FROM berth.workers w WHERE w.alive_until > clock_timestamp() AND p.name = ANY(w.open_breakers))::boolean AS breaker_open
FROM berth.provisioners p
WHERE p.name > @after
ORDER BY p.name LIMIT @most;

-- name: ProvisionerRegistering :exec
-- One registers at a time, until its transaction ends.
SELECT pg_advisory_xact_lock(@key::bigint);

-- name: ProvisionerRegister :many
-- Registers names that are not known yet; one that is known is left as it is.
INSERT INTO berth.provisioners (name, type, supports, timeout)
SELECT n.name, n.type, string_to_array(n.supports, ','), n.timeout
FROM (SELECT unnest(@names::text[]) AS name, unnest(@types::text[]) AS type, unnest(@supports::text[]) AS supports, unnest(@timeouts::interval[]) AS timeout) AS n
ORDER BY n.name
ON CONFLICT (name) DO NOTHING
RETURNING name;

-- name: ProvisionerDescribe :exec
-- What the configuration that acts says of itself. The type of a name never changes.
UPDATE berth.provisioners SET supports = string_to_array(@supports::text, ','), timeout = @timeout
WHERE name = @name AND digest = @digest AND (supports, timeout) IS DISTINCT FROM (string_to_array(@supports::text, ','), @timeout::interval);

-- name: ProvisionerRetyped :many
-- Names that are registered with another type, and how many places each has.
SELECT p.name, p.type, n.type::text AS wanted,
    (SELECT count(*) FROM berth.provisioner_resources r WHERE r.provisioner = p.name) AS places
FROM (SELECT unnest(@names::text[]) AS name, unnest(@types::text[]) AS type) AS n
JOIN berth.provisioners p ON p.name = n.name AND p.type <> n.type
ORDER BY p.name;

-- name: ProvisionerSeen :exec
UPDATE berth.provisioners SET seen_at = clock_timestamp()
WHERE name IN (SELECT l.name FROM berth.provisioners l WHERE l.name = ANY(@names::text[]) AND l.seen_at < clock_timestamp() - @older::interval
    ORDER BY l.name FOR NO KEY UPDATE SKIP LOCKED);

-- name: ProvisionerDefaultSilent :one
-- Whether no live worker has had another default than this one, the one that there is, for so long. Who announces none would keep
-- what it has.
SELECT EXISTS (SELECT FROM berth.provisioners p WHERE p.is_default AND p.name <> @name AND NOT EXISTS (
    SELECT FROM berth.workers w WHERE w.alive_until > clock_timestamp() - @silence::interval
        AND (w.default_provisioner = p.name OR w.default_provisioner IS NULL AND p.name = ANY (w.provisioners))))::boolean AS silent;

-- name: ProvisionerDefaultAnnounced :one
SELECT EXISTS (SELECT FROM berth.workers w WHERE w.alive_until > clock_timestamp() AND w.default_provisioner = @name::text)::boolean AS announced;

-- name: ProvisionerDefaultClear :exec
UPDATE berth.provisioners SET is_default = false WHERE is_default AND name <> @name;

-- name: ProvisionerDefaultSet :execrows
UPDATE berth.provisioners SET is_default = true WHERE name = @name AND NOT is_default;

-- name: ProvisionerPlaces :many
SELECT n.name::text AS provisioner, (SELECT count(*) FROM berth.provisioner_resources r WHERE r.provisioner = n.name) AS places
FROM unnest(@names::text[]) AS n (name) ORDER BY n.name;

-- name: ProvisionerPause :execrows
UPDATE berth.provisioners SET paused_at = clock_timestamp() WHERE name = @name AND paused_at IS NULL;

-- name: ProvisionerResume :one
-- Since when it was paused; no row if it was not. See PlaceResumed.
UPDATE berth.provisioners v SET paused_at = NULL
FROM (SELECT o.name, o.paused_at FROM berth.provisioners o WHERE o.name = @name AND o.paused_at IS NOT NULL FOR NO KEY UPDATE) o
WHERE v.name = o.name
RETURNING o.paused_at::timestamptz AS since;

-- name: ProvisionerMissing :many
-- Provisioners that no live worker has had for so long, with what is there.
SELECT p.name, count(*) AS places FROM berth.provisioners p JOIN berth.provisioner_resources r ON r.provisioner = p.name
WHERE p.seen_at < clock_timestamp() - @missing_for::interval
GROUP BY p.name ORDER BY p.name;
