-- What sqlc has to know before it reads db/migrations. Nothing runs this file: the schema itself is made by whoever migrates.
CREATE SCHEMA berth;
