#!/usr/bin/env bash
# Fails unless db/dbsqlc is what sqlc makes of the migrations and queries as they stand: nothing old, nothing missing, nothing left
# over from a query file that is gone. Changes no file. Usage: tools/generated.sh COMMAND-THAT-RUNS-SQLC
set -euo pipefail
cd "$(dirname "$0")/.."

# tools/sqlc/after.sql repeats the columns of a composite type for sqlc; Postgres reads only the migrations.
columns() { sed -nE '/^CREATE (TYPE|TABLE) berth\.claimed /,/^\);/p' "$@" | sed 1d | tr -s ' '; }
if ! diff -u --label db/migrations --label tools/sqlc/after.sql <(columns db/migrations/*.sql) <(columns tools/sqlc/after.sql); then
	echo "generated: berth.claimed differs between db/migrations and tools/sqlc/after.sql: copy its columns" >&2
	exit 1
fi

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/db" "$tree/tools"
cp sqlc.yaml "$tree/"
cp -r db/migrations db/queries "$tree/db/"
cp -r tools/sqlc "$tree/tools/"
"$@" generate -f "$tree/sqlc.yaml"
if ! diff -ru --label db/dbsqlc --label generated db/dbsqlc "$tree/db/dbsqlc"; then
	echo "generated: db/dbsqlc is not what sqlc makes of db/queries and db/migrations: run \`make generate\` and commit the result" >&2
	exit 1
fi
echo "generated: db/dbsqlc is what sqlc makes of db/queries and db/migrations"
