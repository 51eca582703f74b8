// Package db is Berth's database: how it is opened, its schema and how that is migrated, and the queries on it. Everything
// stands in the schema berth, River's tables included; River's migrator owns those, goose owns ours.
//
// db/migrations is authoritative for the tables, and a landed migration is never edited. db/dbtest gives tests a database each.
package db
