-- name: EventInsert :exec
-- The nil uuid stands for none.
INSERT INTO berth.events (deployment_id, resource_id, kind, actor, detail)
SELECT nullif(n.deployment_id, '00000000-0000-0000-0000-000000000000'::uuid), nullif(n.resource_id, '00000000-0000-0000-0000-000000000000'::uuid),
    n.kind, @actor::text, n.detail
FROM (SELECT unnest(@deployment_ids::uuid[]) AS deployment_id, unnest(@resource_ids::uuid[]) AS resource_id, unnest(@kinds::text[]) AS kind, unnest(@details::jsonb[]) AS detail, generate_subscripts(@deployment_ids::uuid[], 1) AS ord) AS n
ORDER BY n.ord;

-- name: EventDeleted :many
-- Which of these deployments were deleted once. Planned once a session, as ProjectSettings is.
SELECT DISTINCT e.deployment_id::uuid AS id FROM berth.events e
WHERE e.deployment_id = ANY(ARRAY(SELECT unnest(@ids::uuid[]))) AND e.kind = 'DeploymentDeleted'
ORDER BY 1;

-- name: EventList :many
SELECT * FROM berth.events WHERE deployment_id = @deployment_id AND id > @after ORDER BY id LIMIT @most;

-- name: EventPrune :one
-- The oldest first, so many at most, none before a time: from there a run goes on, and does not pass over what it deleted. What someone
-- holds is left for another time. DeploymentDeleted stays: it refuses the id for ever.
WITH l AS (
    SELECT e.id FROM berth.events e
    WHERE e.kind <> 'DeploymentDeleted' AND e.at >= @after::timestamptz AND e.at < now() - @kept::interval
    ORDER BY e.at LIMIT @most FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM berth.events e USING l WHERE e.id = l.id RETURNING e.at
)
SELECT count(*) AS n, coalesce(max(g.at), @after::timestamptz)::timestamptz AS last FROM gone g;
