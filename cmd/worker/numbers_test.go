package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/jobs"
	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/provisionertest"
	"berth/reconcile"
)

// Numbers that are others once they were a float: beyond 2^53, the largest int64, and more digits than a float has.
const (
	odd     = "9007199254740993"
	largest = "9223372036854775807"
	precise = "0.1234567890123456789012345"
)

// numbers is a worker whose only provisioner returns numbers that no float holds, and keeps what it was called with.
type numbers struct {
	*testBundle
	client *lifecycle.Client

	mu   sync.Mutex
	seen map[provisioner.ResourceType]provisioner.Resource // as it was called last
}

// exact is its provisioner.
type exact struct {
	*provisionertest.Fake
	n *numbers
}

// Reconcile returns what is hard to keep.
func (e exact) Reconcile(_ context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	e.n.seen[r.Type] = *r
	r.State = json.RawMessage(`{"serial": ` + odd + `, "deep": [{"largest": ` + largest + `}], "precise": ` + precise + `}`)
	r.Config = json.RawMessage(`{"host": "http://10.0.0.1", "audience": "a", "slots": ` + odd + `, "storage_bytes": ` + largest + `, "precise": ` + precise + `}`)
	return provisioner.Observation{Phase: provisioner.PhaseReady}, nil
}

func newNumbers(t *testing.T) *numbers {
	t.Helper()
	client, err := lifecycle.NewClient("test", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	n := &numbers{testBundle: setup(t), client: client, seen: map[provisioner.ResourceType]provisioner.Resource{}}
	fake := exact{provisionertest.NewFake("scripted", provisioner.Runtime, "database"), n}
	n.inTx(func(ctx context.Context, tx pgx.Tx) error {
		return client.RegisterProvisioners(ctx, tx, []lifecycle.Configured{{Name: "scripted", Type: "scripted", Info: fake.Info()}}, "scripted")
	})
	logger := slog.New(slog.DiscardHandler)
	engine := reconcile.New(reconcile.Config{
		Pool: n.db.Open(t, db.PoolOptions{MaxConns: 5, Worker: true}), Lifecycle: client, Logger: logger,
		Provisioners: map[string]provisioner.Provisioner{"scripted": fake},
	})
	queue, err := jobs.NewClient(n.db.Open(t, db.PoolOptions{MaxConns: 5, Queue: true}), jobs.Config{
		Driver: engine, Logger: logger, ID: uuid.NewString(),
	})
	require.NoError(t, err)
	engine.Serve(jobs.NewQueues(queue, 0))
	require.NoError(t, engine.Start(t.Context()))
	require.NoError(t, queue.Start(context.WithoutCancel(t.Context())))
	w := &working{engine: engine, queue: queue, logger: logger}
	t.Cleanup(func() { require.NoError(t, w.stop(context.Background())) })
	return n
}

func (n *numbers) inTx(f func(context.Context, pgx.Tx) error) {
	n.t.Helper()
	require.NoError(n.t, pgx.BeginFunc(n.t.Context(), n.db.Pool, func(tx pgx.Tx) error { return f(n.t.Context(), tx) }))
}

// calledWith is what the provisioner was called with last.
func (n *numbers) calledWith(typ provisioner.ResourceType) provisioner.Resource {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[typ]
}

func (n *numbers) text(sql string, args ...any) (s string) {
	n.t.Helper()
	require.NoError(n.t, n.db.Pool.QueryRow(n.t.Context(), sql, args...).Scan(&s), sql)
	return s
}

// What is asked for and what comes back keep every digit: in the row, in the call, in the event, and in what commands write.
func TestNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	n := newNumbers(t)
	n.ok("org", "create", "acme")
	shown := n.ok("project", "create", "acme/web", "--annotation", "big="+odd, "--annotation", "exp=1e3", "-o", "json")
	for _, out := range []string{shown, n.ok("project", "show", "acme/web", "-o", "json")} {
		require.Contains(t, out, `"big": "`+odd+`"`)
		require.Contains(t, out, `"exp": "1e3"`, "an annotation is text")
	}
	n.ok("deployment", "create", "acme/web", "--id", someID, "--wait", patience.String())

	const runtime = "FROM berth.provisioner_resources WHERE type = 'runtime'"
	args := decode[provisioner.RuntimeArgs](t, n.text("SELECT args::text "+runtime))
	require.Equal(t, odd, args.Annotations["big"])
	require.Equal(t, "1e3", args.Annotations["exp"])
	require.Equal(t, args, decode[provisioner.RuntimeArgs](t, string(n.calledWith(provisioner.Runtime).Args)))
	require.Equal(t, odd+" "+largest+" "+precise, n.text("SELECT concat_ws(' ', state ->> 'serial', state #>> '{deep,0,largest}', state ->> 'precise') "+runtime))
	require.Equal(t, odd+" "+largest+" "+precise, n.text("SELECT concat_ws(' ', config ->> 'slots', config ->> 'storage_bytes', config ->> 'precise') "+runtime))
	require.Equal(t, odd, n.text("SELECT detail ->> 'slots' FROM berth.events WHERE kind = $1", lifecycle.RuntimePublished))

	id := n.text("SELECT id::text " + runtime)
	require.Contains(t, n.ok("deployment", "events", someID, "-o", "json"), `"slots": `+odd)
	for _, out := range []string{n.ok("deployment", "show", someID, "-o", "json"), n.ok("resource", "show", id, "-o", "json"), n.ok("resource", "list", "-o", "json")} {
		for _, want := range []string{`"big": "` + odd + `"`, `"exp": "1e3"`, `"slots": ` + odd, `"storage_bytes": ` + largest, `"precise": ` + precise} {
			require.Contains(t, out, want)
		}
	}
}

// The same number in another notation is no change of what is asked for.
func TestNumbersInAnotherNotation(t *testing.T) {
	t.Parallel()
	n := newNumbers(t)
	n.ok("org", "create", "acme")
	n.ok("project", "create", "acme/web")
	n.ok("deployment", "create", "acme/web", "--id", someID, "--wait", patience.String())
	ask := func(bytes string) {
		n.inTx(func(ctx context.Context, tx pgx.Tx) error {
			return n.client.AddResource(ctx, tx, lifecycle.NewResource{Type: "database", Name: "main", Provisioner: "scripted",
				Args: json.RawMessage(`{"slots": 2, "override_disk_bytes": ` + bytes + `, "largest": ` + largest + `}`)}, uuid.MustParse(someID))
		})
	}
	const database = "FROM berth.provisioner_resources WHERE type = 'database'"
	settled := func() {
		require.Eventually(t, func() bool {
			return n.count("SELECT count(*) "+database+" AND observed_generation >= intent_generation AND phase = 'ready'") == 1
		}, patience, 5*time.Millisecond)
	}
	ask(odd)
	settled()
	generation := n.text("SELECT concat(intent_generation, '/', args) " + database)
	require.Equal(t, odd+" "+largest, n.text("SELECT concat_ws(' ', args ->> 'override_disk_bytes', args ->> 'largest') "+database))
	type disk struct {
		Bytes   int64 `json:"override_disk_bytes"`
		Largest int64 `json:"largest"`
	}
	called, err := provisioner.Decode[disk](n.calledWith("database").Args)
	require.NoError(t, err)
	require.Equal(t, disk{9007199254740993, 9223372036854775807}, called)

	for _, same := range []string{odd + ".0", "9.007199254740993e15", "9007199254740993000e-3", odd} {
		ask(same)
		require.Equal(t, generation, n.text("SELECT concat(intent_generation, '/', args) "+database), same)
	}
	ask("9007199254740992") // as a float it is the same
	settled()
	require.NotEqual(t, generation, n.text("SELECT concat(intent_generation, '/', args) "+database))
	called, err = provisioner.Decode[disk](n.calledWith("database").Args)
	require.NoError(t, err)
	require.Equal(t, disk{9007199254740992, 9223372036854775807}, called)
	notes, err := provisioner.Decode[struct {
		Serial int64 `json:"serial"`
	}](n.calledWith("database").State)
	require.NoError(t, err)
	require.EqualValues(t, 9007199254740993, notes.Serial, "the notes of an earlier call")

	id := n.text("SELECT id::text " + database)
	for _, out := range []string{n.ok("deployment", "show", someID, "-o", "json"), n.ok("resource", "show", id, "-o", "json")} {
		require.Contains(t, out, `"override_disk_bytes": 9007199254740992`)
		require.Contains(t, out, `"largest": `+largest)
	}
	require.Contains(t, n.ok("resource", "show", id), "9007199254740992")
}
