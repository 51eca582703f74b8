#!/usr/bin/env bash
# Runs go test on packages, in two runs: those whose tests start a Kubernetes control plane come last and one after another, since each
# test process starts one of its own and gives it so many seconds to answer. Both runs are made, whatever came of the first, and nothing
# is printed after the last. Usage: tools/test.sh PACKAGES FLAG...   (GO: which go)
set -uo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go} # may be several words, as PACKAGES may
patterns=$1
shift
all=$($go list $patterns) || exit
control=$($go list ./provisioner/kubernetes/... ./cmd/worker/bench ./internal/trials) || exit
without=$(grep -vxF "$control" <<<"$all")
with=$(grep -xF "$control" <<<"$all")
status=0
[[ -z $without ]] || $go test "$@" $without || status=1
[[ -z $with ]] || $go test "$@" -p 1 $with || status=1
exit $status
