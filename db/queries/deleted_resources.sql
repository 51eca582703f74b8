-- name: DeletedResourcePrune :one
-- As EventPrune. Whoever holds one makes the place anew.
WITH l AS (
    SELECT t.id, t.provisioner FROM berth.deleted_resources t
    WHERE t.deleted_at >= @after::timestamptz AND t.deleted_at < now() - @kept::interval
    ORDER BY t.deleted_at LIMIT @most FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM berth.deleted_resources t USING l WHERE t.id = l.id AND t.provisioner = l.provisioner RETURNING t.deleted_at
)
SELECT count(*) AS n, coalesce(max(g.deleted_at), @after::timestamptz)::timestamptz AS last FROM gone g;
