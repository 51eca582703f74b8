-- What is pruned by age is found by age. DeploymentDeleted events are kept for ever: they refuse the id of a deleted deployment.

-- +goose Up

CREATE INDEX events_age_idx ON berth.events (at) WHERE kind <> 'DeploymentDeleted';
CREATE INDEX deleted_resources_age_idx ON berth.deleted_resources (deleted_at);

-- +goose Down

DROP INDEX berth.deleted_resources_age_idx;
DROP INDEX berth.events_age_idx;
