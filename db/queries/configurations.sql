-- Which configuration of a provisioner acts.

-- name: ConfigurationActing :one
-- Silent: no live worker has announced it for so long. Fresh: it has acted for less. Answered: a live worker beside this one has it, and
-- its backend answers that worker, as far as it knows.
SELECT p.digest, p.acts_since, (p.rolled_at IS NOT NULL)::boolean AS rolling, (p.acts_since > clock_timestamp() - @silence::interval)::boolean AS fresh, (NOT berth.announced(p.name, p.digest, @silence::interval))::boolean AS silent,
    EXISTS (SELECT FROM berth.workers w WHERE w.id <> @worker AND w.alive_until > clock_timestamp() AND p.name = ANY (w.provisioners) AND p.name <> ALL (w.open_breakers)
        AND p.digest = coalesce(w.digests[array_position(w.provisioners, p.name)], '')) AS answered
FROM berth.provisioners p WHERE p.name = @name;

-- name: ConfigurationHandOver :execrows
-- The one place where another configuration comes to act: one that a live worker announces, when the one that acts is silent, or
-- when an operator says so.
UPDATE berth.provisioners p
SET digest = @digest, acts_since = clock_timestamp(), rolled_at = clock_timestamp(), rolled_to = '00000000-0000-0000-0000-000000000000'
WHERE p.name = @name AND p.digest = @acting AND p.digest <> @digest AND berth.announced(p.name, @digest, interval '0')
  AND (@at_once::boolean OR NOT berth.announced(p.name, p.digest, @silence::interval));

-- name: ConfigurationDisturbed :execrows
-- Whoever acts has to bring its configuration into force once more: another process did so late.
UPDATE berth.provisioners SET acts_since = clock_timestamp() WHERE name = @name AND digest <> @digest;

-- name: ConfigurationList :many
-- What live workers announce of these provisioners, the one that acts first.
SELECT p.name, n.digest::text AS digest, (n.digest = p.digest)::boolean AS acts, count(*) AS workers
FROM (SELECT a.name, coalesce(a.digest, '') AS digest
      FROM (SELECT unnest(w.provisioners) AS name, unnest(w.digests) AS digest FROM berth.workers w WHERE w.alive_until > clock_timestamp()) a) n
JOIN berth.provisioners p ON p.name = n.name
WHERE p.name = ANY(@names::text[])
GROUP BY p.name, n.digest
ORDER BY p.name, acts DESC, n.digest;

-- name: ConfigurationRollout :one
-- Locks the rollout of the configuration that acts, if it is under way, no pause holds it, and nobody has it: how long ago places were
-- last brought to it, within reason, and up to which.
SELECT least(clock_timestamp() - p.rolled_at, @most::interval)::interval AS since, p.rolled_to FROM berth.provisioners p
WHERE p.name = @name AND p.digest = @digest AND p.rolled_at IS NOT NULL AND p.paused_at IS NULL FOR NO KEY UPDATE SKIP LOCKED;

-- name: ConfigurationRolled :exec
-- How far the rollout is; what is left of the time stays for the next step.
UPDATE berth.provisioners SET rolled_at = clock_timestamp() - @rest::interval, rolled_to = @after WHERE name = @name;

-- name: ConfigurationDone :exec
UPDATE berth.provisioners SET rolled_at = NULL WHERE name = @name;

-- name: PlaceBehind :many
-- Places, in order, that were last driven under another configuration and wait for nothing. What kills its workers is left to the
-- dispatcher.
SELECT p.id FROM berth.provisioner_resources p
WHERE p.provisioner = @provisioner AND p.id > @after AND p.digest <> @digest AND p.desired_phase <> 'absent'
  AND p.claimed_generation > 0 AND p.claimed_generation = p.generation AND p.paused_at IS NULL AND p.lost < @max_lost::int
ORDER BY p.id LIMIT @most;

-- name: ConfigurationBehind :many
-- How many places of each of these provisioners were last driven under another configuration. All are read, so ask while they are
-- brought to the one that acts.
SELECT p.provisioner, count(*) AS behind
FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
WHERE p.provisioner = ANY(@names::text[]) AND p.digest <> v.digest AND p.desired_phase <> 'absent' AND p.claimed_generation > 0
GROUP BY p.provisioner
ORDER BY p.provisioner;

-- name: PlaceBehindCount :one
-- How many were, whatever they wait for, or are driven under another one now, of how many.
SELECT count(*) FILTER (WHERE p.digest <> @digest OR p.fence IS NOT NULL AND EXISTS (SELECT FROM berth.workers w
        WHERE w.id = p.leased_by AND coalesce(w.digests[array_position(w.provisioners, p.provisioner)], '') <> @digest)) AS behind,
    count(*) AS places FROM berth.provisioner_resources p
WHERE p.provisioner = @provisioner AND p.desired_phase <> 'absent' AND p.claimed_generation > 0;
