-- Claims: which process may drive a place now. What decides is read after the lock is held, in statements of their own, so
-- it is never older than the row.

-- +goose Up

-- Whether the holder of a lease can still be at work. A worker that is not known counts as alive until the lease's hard end:
-- its row may be younger than the caller's snapshot. So rows of workers are pruned only when no lease can name them. After a
-- restart of the server everybody is given one full alive time to come back before anything is taken over.
-- +goose StatementBegin
CREATE FUNCTION berth.lease_live(worker uuid, until timestamptz, alive interval) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT until IS NOT NULL AND until > clock_timestamp()
       AND (pg_postmaster_start_time() + alive > clock_timestamp()
            OR NOT EXISTS (SELECT FROM berth.workers w WHERE w.id = worker AND w.alive_until <= clock_timestamp()))
$$;
-- +goose StatementEnd

-- What a claim answers: nothing (no row), one row with held (someone holds what it needs: ask again soon), or the place.
CREATE TYPE berth.claimed AS (
    held               boolean,
    taken_over         boolean,
    id                 uuid,
    provisioner        text,
    deployment_id      uuid,
    type               text,
    name               text,
    desired_phase      text,
    phase              text,
    args               jsonb,
    state              jsonb,
    config             jsonb,
    fence              uuid,
    failures           int,
    lost               int,
    claimed_generation bigint,
    deadline_at        timestamptz
);

-- Claims one place. SKIP LOCKED loses nothing: whoever holds the row is an outcome (it follows up), an intent (it inserts a
-- job) or the dispatcher (it does, or looks again). With take_over false, a lease whose worker died is left alone.
-- +goose StatementBegin
CREATE FUNCTION berth.claim(i uuid, p text, f uuid, worker uuid, lease interval, alive interval, take_over boolean, spread interval)
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

-- +goose Down

DROP FUNCTION berth.claim(uuid, text, uuid, uuid, interval, interval, boolean, interval);
DROP TYPE berth.claimed;
DROP FUNCTION berth.lease_live(uuid, timestamptz, interval);
