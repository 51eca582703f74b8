-- What sqlc has to be told after it read db/migrations. Nothing runs this file.

-- sqlc knows no columns of a composite type, so `SELECT * FROM berth.claim(...)` would be one value of an unknown type. Declared
-- again as a table, it becomes a struct. Everything may be NULL: a claim that answers held says nothing else. The columns have to
-- be those of the type in the migrations, in their order; `make check` compares the two.
CREATE TABLE berth.claimed (
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
