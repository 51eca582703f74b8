package lifecycle_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
	"berth/lifecycle"
	"berth/provisioner"
)

func TestMain(m *testing.M) {
	// Each check is a sequence on a real database. What the command line says wins.
	if err := errors.Join(flag.Set("rapid.checks", "100"), flag.Set("rapid.nofailfile", "true"), flag.Set("rapid.shrinktime", "10s")); err != nil {
		panic(err)
	}
	dbtest.Main(m)
}

const (
	staticA = "static-a" // holds runtimes; the default
	baseA   = "base-a"   // holds databases
)

// bundle is a database with two provisioners, an organization and a project.
type bundle struct {
	d       *dbtest.DB
	pool    *pgxpool.Pool
	client  *lifecycle.Client
	project lifecycle.Project
}

func setup(t testing.TB) *bundle {
	t.Helper()
	b := bare(t)
	b.register(t, staticA, configured(staticA, "runtime"), configured(baseA, "database"))
	b.do(t, func(ctx context.Context, tx pgx.Tx) error {
		o, err := b.client.CreateOrganization(ctx, tx, "acme", "")
		if err != nil {
			return err
		}
		b.project, err = b.client.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: o.ID, Name: "web", Slots: 2, Version: "1.2.3", Annotations: map[string]string{"plan": "team"}})
		return err
	})
	return b
}

// bare is a database in which nothing is known.
func bare(t testing.TB) *bundle {
	t.Helper()
	client, err := lifecycle.NewClient("tester", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	d := dbtest.New(t)
	return &bundle{d: d, pool: d.Pool, client: client}
}

// wide makes the bundle's pool one of more connections.
func (b *bundle) wide(t testing.TB, conns int32) {
	b.pool = b.d.Open(t, db.PoolOptions{MaxConns: conns, Name: "admin"})
}

func configured(name string, types ...provisioner.ResourceType) lifecycle.Configured {
	return lifecycle.Configured{Name: name, Type: "scripted", Info: provisioner.Info{Types: types}}
}

func (b *bundle) register(t testing.TB, defaultName string, set ...lifecycle.Configured) {
	t.Helper()
	b.do(t, func(ctx context.Context, tx pgx.Tx) error {
		return b.client.RegisterProvisioners(ctx, tx, set, defaultName)
	})
}

// call is what an admin does in one transaction.
type call func(ctx context.Context, tx pgx.Tx) error

// try runs a call and, as an admin would, commits its own row even if the call was refused. Any other error rolls back.
func (b *bundle) try(ctx context.Context, f call) error {
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	refused := f(ctx, tx)
	if typed := (*lifecycle.Error)(nil); refused != nil && !errors.As(refused, &typed) {
		return refused
	}
	if err := tx.Commit(ctx); err != nil {
		return errors.Join(fmt.Errorf("commit: %w", err), refused)
	}
	return refused
}

// retry is try for as long as the transaction has to give way to another. It counts how often it did.
func (b *bundle) retry(ctx context.Context, f call) (gaveWay int, err error) {
	for ; gaveWay < 1000; gaveWay++ {
		if err = b.try(ctx, f); !errors.Is(err, lifecycle.ErrRetry) {
			return gaveWay, err
		}
	}
	return gaveWay, err
}

// do is try where nothing may go wrong.
func (b *bundle) do(t testing.TB, f call) {
	t.Helper()
	require.NoError(t, b.try(t.Context(), f))
}

func (b *bundle) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
}

// count is a query for one number.
func (b *bundle) count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	var n int
	require.NoError(t, b.pool.QueryRow(t.Context(), sql, args...).Scan(&n), sql)
	return n
}

// create makes n deployments, each with its runtime and a database.
func (b *bundle) create(t testing.TB, n int) []uuid.UUID {
	t.Helper()
	ids := newIDs(n)
	b.do(t, func(ctx context.Context, tx pgx.Tx) error {
		if err := b.client.Create(ctx, tx, b.news(ids)...); err != nil {
			return err
		}
		return b.client.AddResource(ctx, tx, database(""), ids...)
	})
	return ids
}

func (b *bundle) news(ids []uuid.UUID) []lifecycle.NewDeployment {
	out := make([]lifecycle.NewDeployment, len(ids))
	for i, id := range ids {
		out[i] = lifecycle.NewDeployment{ID: id, ProjectID: b.project.ID}
	}
	return out
}

func database(name string) lifecycle.NewResource {
	return lifecycle.NewResource{Type: "database", Name: name, Args: []byte(`{"size": 1}`)}
}

// newIDs returns ids in no order.
func newIDs(n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	return ids
}

func shuffled(ids []uuid.UUID) []uuid.UUID {
	out := append([]uuid.UUID(nil), ids...)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func reversed(ids []uuid.UUID) []uuid.UUID {
	out := make([]uuid.UUID, len(ids))
	for i, id := range ids {
		out[len(ids)-1-i] = id
	}
	return out
}

// patience is how long a test waits for what has to happen.
const patience = time.Minute
