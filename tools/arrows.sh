#!/usr/bin/env bash
# Proves that the import arrows of .golangci.yml bite: lints a made-up tree of the same layout in which every import says whether
# it is allowed, and compares what the linter reports with what it should. Usage: tools/arrows.sh COMMAND-THAT-RUNS-GOLANGCI-LINT
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cp go.mod go.sum .golangci.yml "$tree/"

# stub DIR[/FILE.go] IMPORT... writes a package that imports each; "!" before one means that the linter must refuse it.
stub() {
	local file=$1 dir name
	shift
	[[ $file == *.go ]] || file=$file/stub.go
	dir=$(dirname "$file")
	name=$(basename "$dir")
	[[ $file != */example_test.go ]] || name=${name}_test
	mkdir -p "$tree/$dir"
	{
		echo "package $name"
		for path in "$@"; do
			if [[ $path == !* ]]; then echo "import _ \"${path#!}\" // refused"; else echo "import _ \"$path\""; fi
		done
	} >"$tree/$file"
}

river=github.com/riverqueue/river
pgx=github.com/jackc/pgx/v5
uuid=github.com/google/uuid
require=github.com/stretchr/testify/require

# What the others import, and may: nothing.
stub leaf
stub internal/leaf
stub internal/defaults
stub provisioner/leaf

stub internal/postgres berth/internal/defaults !berth/leaf $pgx
stub internal/kubebuild
stub internal/kuberun berth/internal/kubebuild !berth/provisioner !berth/leaf
stub internal/telemetry berth/internal/defaults !berth/db !berth/leaf $pgx
stub internal/health berth/internal/defaults berth/db $pgx !$river !berth/db/dbsqlc !berth/jobs !berth/reconcile !berth/leaf !berth/internal/leaf
stub jobs $river $pgx berth/internal/defaults !berth/leaf !berth/internal/leaf !berth/provisioner !berth/db !io/ioutil !log !math/rand
stub jobs/stub_test.go berth/leaf $require !github.com/stretchr/testify/assert !github.com/stretchr/testify/suite
stub provisioner errors $uuid berth/internal/defaults !$pgx !$river !berth/leaf !berth/internal/leaf !berth/provisioner/leaf
stub provisioner/static errors $uuid berth/provisioner berth/internal/defaults !$pgx !$river !berth/jobs !berth/provisioner/leaf !berth/internal/leaf
stub provisioner/kubernetes errors $uuid berth/provisioner berth/internal/defaults k8s.io/api/core/v1 k8s.io/apimachinery/pkg/types k8s.io/client-go/rest sigs.k8s.io/json go.yaml.in/yaml/v2 go.yaml.in/yaml/v3 github.com/Masterminds/sprig/v3 !$pgx !$river !berth/jobs !berth/db !berth/lifecycle !berth/reconcile !berth/provisioner/static !berth/provisioner/leaf !berth/internal/leaf
stub provisioner/set errors github.com/tailscale/hujson berth/provisioner berth/internal/defaults !$uuid !$pgx !$river !berth/jobs !berth/provisioner/static !berth/provisioner/leaf
stub provisioner/provisionertest testing $uuid berth/provisioner berth/internal/defaults $require github.com/google/go-cmp/cmp go.uber.org/goleak !$pgx !$river !berth/jobs !berth/provisioner/static
stub provisioner/provisionertest/example_test.go testing $uuid berth/provisioner berth/provisioner/provisionertest !$pgx !berth/provisioner/static
stub provisioner/kubernetes/kubetest testing k8s.io/apimachinery/pkg/types k8s.io/api/core/v1 k8s.io/client-go/rest berth/internal/kuberun $require !$pgx !$river !$uuid !berth/provisioner !berth/internal/leaf
stub db $pgx $river berth/internal/defaults berth/db/dbsqlc !berth/leaf !berth/provisioner !berth/internal/leaf
stub db/dbsqlc $pgx !berth/provisioner
stub db/dbstatic $pgx berth/internal/defaults berth/db berth/db/dbsqlc berth/provisioner berth/provisioner/static !$river !berth/leaf !berth/jobs !berth/provisioner/leaf
stub db/dbtest $pgx berth/db berth/db/dbsqlc berth/internal/postgres !berth/leaf !berth/jobs !berth/provisioner
stub lifecycle $pgx berth/jobs berth/provisioner berth/db berth/db/dbsqlc berth/internal/defaults !$river !berth/leaf !berth/provisioner/static !berth/db/dbtest !berth/db/dbstatic !berth/internal/leaf
stub reconcile $pgx berth/lifecycle berth/jobs berth/provisioner berth/db berth/db/dbsqlc berth/internal/defaults !$river !berth/leaf !berth/provisioner/static !berth/db/dbtest !berth/db/dbstatic !berth/internal/leaf
stub reconcile/stub_test.go berth/provisioner/static berth/db/dbtest $river
stub cmd/worker berth/reconcile berth/lifecycle berth/jobs berth/provisioner/static berth/db/dbstatic berth/internal/postgres $river $pgx

cd "$tree"
# A stub that does not compile would be reported by other means than its imports, and prove nothing.
go build ./...
go vet ./...
grep -rn --include='*.go' '// refused' . | sed -E 's|^\./([^:]+:[0-9]+):.*|\1|' | sort >want
{ "$@" run --enable-only=depguard --show-stats=false --output.text.print-issued-lines=false --output.text.path= ./... || true; } >found 2>errors
grep -oE '^[^ :]+\.go:[0-9]+' found | sort -u >got || true
if ! diff -u want got; then
	cat found errors >&2
	echo "arrows: the linter's rules of imports are not those that tools/arrows.sh expects (- expected, + reported)" >&2
	exit 1
fi
echo "arrows: $(wc -l <want) refused imports found, no other"
