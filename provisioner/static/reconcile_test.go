package static_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

// TestConfig: what was configured and asked for reaches the resource's config.
func TestConfig(t *testing.T) {
	t.Parallel()
	s := spec(map[string]any{"host": hostA, "slots": 50, "data_dir": "/mnt/data", "audience_url": "https://aud.example.com"})
	s["slot"] = map[string]any{"cpu": 2, "memory_gb": 8, "storage_gb": 10}
	w, p, _ := pool(t, s)
	r := resource(3)
	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 3, Version: "v1.2.3", Environment: "prod"})
	w.settle(p, r)
	want := provisioner.RuntimeConfig{
		Host: hostA, Audience: "https://aud.example.com", DataDir: "/mnt/data", Slots: 3, Version: "v1.2.3", CPU: 6, MemoryGB: 24, StorageBytes: 30e9,
	}
	require.Empty(t, cmp.Diff(want, config(t, r)))

	r.Args = provisioner.Encode(provisioner.RuntimeArgs{Slots: 3, Version: "v1.2.4", Environment: "prod"})
	w.settle(p, r)
	require.Equal(t, "v1.2.4", config(t, r).Version)
	require.Equal(t, hostA, config(t, r).Host)
}

// TestRetryKeepsItsPlace: a retry in another process returns what is held, whatever has room by now.
func TestRetryKeepsItsPlace(t *testing.T) {
	t.Parallel()
	w, p, _ := pool(t, spec(runtime(hostA, 8), runtime(hostB, 8)))
	r := w.ready(p, 4)
	at := config(t, r).Host
	for range 5 {
		next := w.openVia(w.store, &serving{}, "pool", spec(runtime(hostA, 8), runtime(hostB, 8)))
		r.State, r.Config = nil, nil // an outcome that was never stored
		w.settle(next, r)
		require.Equal(t, at, config(t, r).Host)
	}
	require.Equal(t, 4, w.used("pool")[at])
}

// TestOtherTypes: a pool of runtimes holds nothing else.
func TestOtherTypes(t *testing.T) {
	t.Parallel()
	w, p, _ := pool(t, spec(runtime(hostA, 8)))
	r := &provisioner.Resource{ID: uuid.New(), Type: "database", Args: json.RawMessage(`{"slots": 1}`)}
	_, err := w.drive(p, r)
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	require.ErrorContains(t, err, `"database"`)
	require.Empty(t, w.inspect("pool", r.ID))
	w.remove(p, r)
}

// TestObserveWaiting: who waits is neither absent nor ready.
func TestObserveWaiting(t *testing.T) {
	t.Parallel()
	w, p, _ := pool(t, spec(runtime(hostA, 8)))
	w.ready(p, 8)
	r := resource(2)
	w.waits(p, r)
	seen, err := p.Observe(t.Context(), []provisioner.Resource{*r, *resource(1)})
	require.NoError(t, err)
	require.Equal(t, provisioner.PhasePending, seen[0].Phase)
	require.Equal(t, "NoCapacity", seen[0].Reason)
	require.Contains(t, seen[0].Message, "2 slots")
	require.Equal(t, provisioner.PhaseAbsent, seen[1].Phase)
	c, err := p.Check(t.Context())
	require.NoError(t, err)
	require.Contains(t, c.Problems, "waiting for room: 1")
	require.Equal(t, []provisioner.Host{{Name: hostA, Slots: 8, Used: 8}}, c.Hosts)
}
