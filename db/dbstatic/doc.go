// Package dbstatic keeps the slots of static pools in Postgres. The functions of db/migrations/00003_static.sql do the work and
// are authoritative; this package only calls them.
package dbstatic
