package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// All measurements run to their end. What they say of so small sizes means nothing.
func TestBench(t *testing.T) {
	t.Parallel()
	r := worker(t.Context(), nil, "bench", "--quick", "--no-fsync")
	require.Zero(t, r.status, r.stderr)
	for _, line := range []string{"backlog  ratio of 100 deployments to no-ops", "latency  median ", "reserve  spread: ratio of", "reserve  pack: ratio of"} {
		require.Contains(t, r.stdout, line)
	}
	require.Contains(t, worker(t.Context(), nil, "bench", "--only", "nothing").stderr, "backlog")
}
