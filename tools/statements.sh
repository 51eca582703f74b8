#!/usr/bin/env bash
# Prints the statements that the program of a commit sends, as db/testdata/statements keeps them: what the workers and admins of an
# older schema go on sending after a migration. Run it before a migration lands, with the last commit of the schema before it:
#   tools/statements.sh main >db/testdata/statements/00007.sql
set -euo pipefail
commit=${1:?which commit}
git ls-tree -r --name-only "$commit" db/dbsqlc | grep '\.sql\.go$' | while read -r file; do
	git show "$commit:$file" | awk '/^const [A-Za-z]+ = `-- name: /{sub(/^[^`]*`/, ""); p = 1} /^`$/{if (p) print ""; p = 0} p'
done
# The store of static has its statements in its code.
git ls-tree -r --name-only "$commit" db/dbstatic | grep -v '_test\.go$' | while read -r file; do
	git show "$commit:$file" | awk -v from="$(basename "$file" .go)" '
		{ text = text $0 "\n" }
		END {
			n = split(text, part, "`")
			for (i = 2; i <= n; i += 2) if (part[i] ~ /^[ \t\n]*(SELECT|UPDATE|INSERT|DELETE|WITH) /) {
				sub(/^[ \t\n]+/, "", part[i]); sub(/[ \t\n]+$/, "", part[i])
				k++; print "-- name: Static_" from "_" k "\n" part[i] "\n"
			}
		}'
done
