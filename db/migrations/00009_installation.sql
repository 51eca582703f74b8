-- Which installation of Berth this is. What it makes in a backend that others may use too bears this id, and nothing else is touched
-- there. It is drawn once, here, and nothing changes it: what was made under another one would be somebody else's.

-- +goose Up

CREATE TABLE berth.installation (
    id uuid NOT NULL CONSTRAINT installation_pkey PRIMARY KEY
);
CREATE UNIQUE INDEX installation_one_idx ON berth.installation ((true)); -- one row
INSERT INTO berth.installation (id) VALUES (gen_random_uuid());

-- +goose Down

DROP TABLE berth.installation;
