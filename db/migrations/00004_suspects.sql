-- A place that was lost twice is driven beside no other such one by the same worker.

-- +goose Up

-- Few rows, if any. lost changes only where a worker was lost, so a claim keeps its row on its page as before.
CREATE INDEX provisioner_resources_suspect_idx ON berth.provisioner_resources (provisioner, id) WHERE lost >= 2;

-- berth.claim as in 00002_claim.sql, but for the paragraph about suspects.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION berth.claim(i uuid, p text, f uuid, worker uuid, lease interval, alive interval, take_over boolean, spread interval)
RETURNS SETOF berth.claimed LANGUAGE plpgsql AS $$
DECLARE
    r berth.provisioner_resources;
    answer berth.claimed;
BEGIN
    SELECT x.* INTO r FROM berth.provisioner_resources x
    WHERE x.id = i AND x.provisioner = p AND x.claimed_generation < x.generation FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM FROM berth.provisioner_resources x WHERE x.id = i AND x.provisioner = p AND x.claimed_generation < x.generation;
        IF FOUND THEN
            answer.held := true;
            RETURN NEXT answer;
        END IF;
        RETURN;
    END IF;
    IF r.deployment_id IS NOT NULL THEN       -- a run whose outcome could not be stored now is not begun
        PERFORM FROM berth.deployments d WHERE d.id = r.deployment_id FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            answer.held := true;
            RETURN NEXT answer;
            RETURN;
        END IF;
    END IF;
    IF r.fence IS NOT NULL AND r.leased_until > clock_timestamp()
       AND (NOT take_over OR berth.lease_live(r.leased_by, r.leased_until, alive)) THEN
        RETURN;                                -- its holder follows up
    END IF;
    IF r.desired_phase <> 'absent' AND EXISTS (SELECT FROM berth.provisioner_resources s
            WHERE s.id = i AND s.provisioner <> p AND s.desired_phase = 'absent' AND s.deployment_id IS NOT NULL) THEN
        RETURN;                                -- blocked: whoever removes the old place wakes this one
    END IF;
    -- What lost two workers in a row is suspected of killing them, and the next loss convicts it. So it is spread out, away from
    -- what it died with, and no worker has two suspects at once: what else is in flight when it is lost is not convicted with it.
    IF r.fence IS NOT NULL AND r.lost = 1
       OR r.fence IS NULL AND r.lost >= 2 AND EXISTS (SELECT FROM berth.provisioner_resources s WHERE s.lost >= 2 AND s.leased_by = worker) THEN
        UPDATE berth.provisioner_resources x SET fence = NULL, leased_by = NULL, leased_until = NULL, lost = greatest(x.lost, 2),
            reason = CASE WHEN r.lost = 1 THEN 'Interrupted' ELSE x.reason END,
            message = CASE WHEN r.lost = 1 THEN 'two workers were lost in a row while they held it' ELSE x.message END,
            claimed_generation = x.generation, retry_at = clock_timestamp() + random() * spread
        WHERE x.id = i AND x.provisioner = p;
        RETURN;
    END IF;
    UPDATE berth.provisioner_resources x
    SET fence = f, leased_by = worker, leased_until = clock_timestamp() + lease, claimed_generation = x.generation,
        lost = x.lost + (r.fence IS NOT NULL)::int
    WHERE x.id = i AND x.provisioner = p;
    answer := ROW(false, r.fence IS NOT NULL, i, p, r.deployment_id, r.type, r.name, r.desired_phase, r.phase, r.args, r.state, r.config,
        f, r.failures, r.lost + (r.fence IS NOT NULL)::int, r.generation, r.deadline_at);
    RETURN NEXT answer;
END $$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION berth.claim(i uuid, p text, f uuid, worker uuid, lease interval, alive interval, take_over boolean, spread interval)
RETURNS SETOF berth.claimed LANGUAGE plpgsql AS $$
DECLARE
    r berth.provisioner_resources;
    answer berth.claimed;
BEGIN
    SELECT x.* INTO r FROM berth.provisioner_resources x
    WHERE x.id = i AND x.provisioner = p AND x.claimed_generation < x.generation FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM FROM berth.provisioner_resources x WHERE x.id = i AND x.provisioner = p AND x.claimed_generation < x.generation;
        IF FOUND THEN
            answer.held := true;
            RETURN NEXT answer;
        END IF;
        RETURN;
    END IF;
    IF r.deployment_id IS NOT NULL THEN       -- a run whose outcome could not be stored now is not begun
        PERFORM FROM berth.deployments d WHERE d.id = r.deployment_id FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            answer.held := true;
            RETURN NEXT answer;
            RETURN;
        END IF;
    END IF;
    IF r.fence IS NOT NULL AND r.leased_until > clock_timestamp()
       AND (NOT take_over OR berth.lease_live(r.leased_by, r.leased_until, alive)) THEN
        RETURN;                                -- its holder follows up
    END IF;
    IF r.desired_phase <> 'absent' AND EXISTS (SELECT FROM berth.provisioner_resources s
            WHERE s.id = i AND s.provisioner <> p AND s.desired_phase = 'absent' AND s.deployment_id IS NOT NULL) THEN
        RETURN;                                -- blocked: whoever removes the old place wakes this one
    END IF;
    IF r.fence IS NOT NULL AND r.lost = 1 THEN -- lost twice: those that died together are spread out, so that a third loss convicts
        UPDATE berth.provisioner_resources x SET fence = NULL, leased_by = NULL, leased_until = NULL, lost = 2, reason = 'Interrupted',
            message = 'two workers were lost in a row while they held it', claimed_generation = x.generation,
            retry_at = clock_timestamp() + random() * spread
        WHERE x.id = i AND x.provisioner = p;
        RETURN;
    END IF;
    UPDATE berth.provisioner_resources x
    SET fence = f, leased_by = worker, leased_until = clock_timestamp() + lease, claimed_generation = x.generation,
        lost = x.lost + (r.fence IS NOT NULL)::int
    WHERE x.id = i AND x.provisioner = p;
    answer := ROW(false, r.fence IS NOT NULL, i, p, r.deployment_id, r.type, r.name, r.desired_phase, r.phase, r.args, r.state, r.config,
        f, r.failures, r.lost + (r.fence IS NOT NULL)::int, r.generation, r.deadline_at);
    RETURN NEXT answer;
END $$;
-- +goose StatementEnd

DROP INDEX berth.provisioner_resources_suspect_idx;
