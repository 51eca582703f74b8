-- The fleet: who exists, what each deployment is to be, and how each resource stands. Postgres 15.
-- Every statement names the schema. A column exists only if it is intent, a fence, or an observation that cannot be
-- recomputed; what a join or a pure function gives is not stored. Checks run at every update of a row, so they are cheap: a bounded
-- repetition in a regular expression costs more than the rest of the update.

-- +goose Up

-- Processes that work, and what each has configured. One heartbeat statement a process, on a connection of its own.
CREATE TABLE berth.workers (
    id           uuid   NOT NULL CONSTRAINT workers_pkey PRIMARY KEY,
    version      text   NOT NULL,
    provisioners text[] NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    alive_until  timestamptz NOT NULL
);

-- The named backends, registered by every process that sees the configured set. Admin processes have no configuration of
-- them; this table is how they learn what may be chosen, and what the default is.
CREATE TABLE berth.provisioners (
    name       text    NOT NULL CONSTRAINT provisioners_pkey PRIMARY KEY,
    type       text    NOT NULL,
    supports   text[]  NOT NULL,
    is_default boolean NOT NULL DEFAULT false,
    timeout    interval NOT NULL,              -- how long a resource may be on its way before that is an error
    seen_at    timestamptz NOT NULL DEFAULT now(), -- when a live worker last had it; missing = ten minutes ago or more
    -- stricter than it looks: the name is part of a River queue's name and of Kubernetes labels
    CONSTRAINT provisioners_name_form CHECK (name ~ '^[a-z0-9]+(-[a-z0-9]+)*$' AND length(name) <= 48),
    CONSTRAINT provisioners_supports_something CHECK (cardinality(supports) > 0),
    CONSTRAINT provisioners_timeout_positive CHECK (timeout > interval '0')
);
CREATE UNIQUE INDEX provisioners_one_default ON berth.provisioners (is_default) WHERE is_default;

CREATE TABLE berth.organizations (
    id                  uuid NOT NULL DEFAULT gen_random_uuid() CONSTRAINT organizations_pkey PRIMARY KEY,
    name                text NOT NULL,
    default_provisioner text CONSTRAINT organizations_default_provisioner_fkey REFERENCES berth.provisioners,
    created_at          timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT organizations_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]*$' AND length(name) <= 63)
);
CREATE UNIQUE INDEX organizations_name_key ON berth.organizations (lower(name));

CREATE TABLE berth.projects (
    id              uuid  NOT NULL DEFAULT gen_random_uuid() CONSTRAINT projects_pkey PRIMARY KEY,
    organization_id uuid  NOT NULL CONSTRAINT projects_organization_fkey REFERENCES berth.organizations,
    name            text  NOT NULL,
    provisioner     text  CONSTRAINT projects_provisioner_fkey REFERENCES berth.provisioners,
    slots           int   NOT NULL DEFAULT 1,          -- default for new deployments
    version         text  NOT NULL DEFAULT 'latest',   -- default for new deployments
    annotations     jsonb NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT projects_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]*$' AND length(name) <= 63),
    CONSTRAINT projects_slots_positive CHECK (slots >= 1),
    CONSTRAINT projects_annotations_object CHECK (jsonb_typeof(annotations) = 'object')
);
CREATE UNIQUE INDEX projects_name_key ON berth.projects (organization_id, lower(name));

-- state is the one derived column that is stored: listings filter on it and a change of it is an event. Only
-- lifecycle.Settle writes it. Reason, message, host, audience and instance id are read from the runtime's current place
-- through the view deployment_details.
CREATE TABLE berth.deployments (
    id            uuid NOT NULL CONSTRAINT deployments_pkey PRIMARY KEY,
    project_id    uuid NOT NULL CONSTRAINT deployments_project_fkey REFERENCES berth.projects,
    environment   text NOT NULL DEFAULT 'prod',
    desired_state text NOT NULL,
    state         text NOT NULL DEFAULT 'pending',
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT deployments_environment_form CHECK (environment ~ '^[a-z0-9][a-z0-9-]*$' AND length(environment) <= 31),
    CONSTRAINT deployments_desired_state_known CHECK (desired_state IN ('running', 'stopped', 'deleted')),
    CONSTRAINT deployments_state_known CHECK
        (state IN ('pending', 'running', 'updating', 'stopping', 'stopped', 'deleting', 'errored'))
) WITH (fillfactor = 80);
CREATE INDEX deployments_project_idx ON berth.deployments (project_id);
CREATE INDEX deployments_state_idx ON berth.deployments (state, id) WHERE state NOT IN ('running', 'stopped');

-- A place: one resource at one provisioner. A resource has one row, and a second one while it moves. The row is written
-- before the first call there, so nothing exists outside that is not listed here.
--   current place = the row of the id that is not wished absent
--   claimable     = claimed_generation < generation, no live lease
--   settled       = observed_generation >= intent_generation AND phase = desired_phase (a wake-up unsettles nothing)
--   given up      = given_up_at IS NOT NULL: the last intent can not be met as it stands
--   blocked       = wished something, while another place of the id that still belongs to a deployment is wished absent
--   restarting    = the deployment wants running, its resource is wished hibernated
--   cleanup debt  = deployment_id IS NULL: the deployment is gone, or went on without this place
CREATE TABLE berth.provisioner_resources (
    id            uuid  NOT NULL,                    -- never changes, moves included; names everything outside
    provisioner   text  NOT NULL CONSTRAINT provisioner_resources_provisioner_fkey REFERENCES berth.provisioners,
    deployment_id uuid  CONSTRAINT provisioner_resources_deployment_fkey REFERENCES berth.deployments ON DELETE RESTRICT,
    type          text  NOT NULL,
    name          text  NOT NULL DEFAULT '',
    -- intent: written by lifecycle, together with generation
    desired_phase text  NOT NULL,
    args          jsonb NOT NULL,
    generation    bigint NOT NULL DEFAULT 1,         -- bumped by every reason to drive it anew
    intent_generation bigint NOT NULL DEFAULT 1,     -- of the last change of intent; an outcome claimed before it never publishes
    -- observation: written by the engine, under the fence
    phase         text  NOT NULL DEFAULT 'unknown',
    reason        text  NOT NULL DEFAULT '',
    message       text  NOT NULL DEFAULT '',
    state         jsonb NOT NULL DEFAULT '{}',
    config        jsonb NOT NULL DEFAULT '{}',
    observed_generation bigint NOT NULL DEFAULT 0,   -- the intent was met as of this one
    given_up_at   timestamptz,                       -- not met, and nothing but a new intent, or luck at the next try, will change that
    -- driving
    claimed_generation  bigint NOT NULL DEFAULT 0,   -- a wake-up bumps only where this equals generation: never two unstarted runs
    fence         uuid,                              -- random; every write of a run, slots included, names it
    leased_by     uuid,                              -- good while that worker is alive ...
    leased_until  timestamptz,                       -- ... and its hard end has not passed
    failures      int    NOT NULL DEFAULT 0,
    failing_since timestamptz,
    retry_at      timestamptz,                       -- when the dispatcher wakes it if nothing else did; NULL = settled. A claim leaves it alone
    lost          int    NOT NULL DEFAULT 0,         -- workers lost in a row while they held it; any outcome sets it to 0
    deadline_at   timestamptz,                       -- when waiting turns into an error
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT provisioner_resources_pkey PRIMARY KEY (id, provisioner),
    CONSTRAINT provisioner_resources_type_form CHECK (type ~ '^[a-z][a-z0-9_-]*$' AND length(type) <= 63),
    CONSTRAINT provisioner_resources_name_form CHECK (name = '' OR name ~ '^[a-z0-9][a-z0-9._-]*$' AND length(name) <= 63),
    CONSTRAINT provisioner_resources_desired_phase_known CHECK (desired_phase IN ('ready', 'hibernated', 'absent')),
    CONSTRAINT provisioner_resources_phase_known CHECK (phase IN ('unknown', 'absent', 'pending', 'ready', 'hibernated')),
    CONSTRAINT provisioner_resources_debt_wants_absent CHECK (deployment_id IS NOT NULL OR desired_phase = 'absent'),
    CONSTRAINT provisioner_resources_generation_order CHECK (observed_generation >= 0 AND observed_generation <= claimed_generation
        AND claimed_generation <= generation AND intent_generation <= generation),
    CONSTRAINT provisioner_resources_lease_triple CHECK ((fence IS NULL) = (leased_by IS NULL) AND (fence IS NULL) = (leased_until IS NULL)),
    CONSTRAINT provisioner_resources_failing_pair CHECK ((failures = 0) = (failing_since IS NULL)),
    CONSTRAINT provisioner_resources_args_object CHECK (jsonb_typeof(args) = 'object'),
    CONSTRAINT provisioner_resources_state_object CHECK (jsonb_typeof(state) = 'object'),
    CONSTRAINT provisioner_resources_config_object CHECK (jsonb_typeof(config) = 'object'),
    CONSTRAINT provisioner_resources_message_bounded CHECK (length(message) <= 4096)
) WITH (fillfactor = 60);                            -- a claim changes no indexed column: keep it on its page
-- At most one current place of an id, and one current resource of a name.
CREATE UNIQUE INDEX provisioner_resources_current_key ON berth.provisioner_resources (id) WHERE desired_phase <> 'absent';
CREATE UNIQUE INDEX provisioner_resources_name_key ON berth.provisioner_resources (deployment_id, type, lower(name)) WHERE desired_phase <> 'absent';
CREATE INDEX provisioner_resources_deployment_idx ON berth.provisioner_resources (deployment_id);
CREATE INDEX provisioner_resources_provisioner_idx ON berth.provisioner_resources (provisioner, id);
CREATE INDEX provisioner_resources_due_idx ON berth.provisioner_resources (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX provisioner_resources_deadline_idx ON berth.provisioner_resources (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX provisioner_resources_waiting_idx ON berth.provisioner_resources (provisioner, id) WHERE reason = 'NoCapacity';

-- Positive proof for a sweep of leftovers: only what is known to have been ours and to be gone may be deleted outside.
CREATE TABLE berth.deleted_resources (
    id          uuid NOT NULL,
    provisioner text NOT NULL,
    deleted_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT deleted_resources_pkey PRIMARY KEY (id, provisioner)
);

CREATE TABLE berth.events (
    id            bigint NOT NULL GENERATED ALWAYS AS IDENTITY CONSTRAINT events_pkey PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT now(),
    deployment_id uuid,                              -- no foreign keys: the log outlives its subjects
    resource_id   uuid,
    kind          text  NOT NULL,
    actor         text  NOT NULL,
    detail        jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT events_detail_object CHECK (jsonb_typeof(detail) = 'object')
);
CREATE INDEX events_deployment_idx ON berth.events (deployment_id, id);

CREATE VIEW berth.deployment_details AS
SELECT d.id, d.project_id, d.environment, d.desired_state, d.state, d.created_at, d.updated_at,
       o.name AS organization, p.name AS project,
       coalesce(r.provisioner, '')::text AS provisioner, coalesce(r.reason, '')::text AS reason, coalesce(r.message, '')::text AS message,
       coalesce((r.args ->> 'slots')::int, 0)::int AS slots, coalesce(nullif(r.args ->> 'version', ''), 'latest')::text AS version,
       coalesce(replace(r.id::text, '-', ''), '')::text AS runtime_instance_id,
       coalesce(CASE WHEN d.state IN ('running', 'updating') THEN r.config ->> 'host' END, '')::text AS runtime_host,
       coalesce(CASE WHEN d.state IN ('running', 'updating') THEN r.config ->> 'audience' END, '')::text AS runtime_audience
FROM berth.deployments d
JOIN berth.projects p ON p.id = d.project_id
JOIN berth.organizations o ON o.id = p.organization_id
LEFT JOIN LATERAL (SELECT x.* FROM berth.provisioner_resources x
                   WHERE x.deployment_id = d.id AND x.type = 'runtime' AND x.name = ''
                   ORDER BY x.desired_phase <> 'absent' DESC, x.created_at DESC LIMIT 1) r ON true;

-- +goose Down

DROP VIEW berth.deployment_details;
DROP TABLE berth.events, berth.deleted_resources, berth.provisioner_resources, berth.deployments, berth.projects,
    berth.organizations, berth.provisioners, berth.workers;
