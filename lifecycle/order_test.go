package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// TestManyIDsInManyOrders has one admin start 200 deployments, one start them in the opposite order and one in a random order,
// while others stop, change and restart them and the engine stores outcomes, a hundred times each. Nobody has to give way: the order of the
// arguments is not the order of the locks.
func TestManyIDsInManyOrders(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.wide(t, 6)
	ids := b.create(t, 200)
	e := b.engine(t, 2)
	client, ctx := b.client, t.Context()
	admins := map[string]func(tx pgx.Tx) error{
		"in order":   func(tx pgx.Tx) error { return client.Start(ctx, tx, ids...) },
		"reversed":   func(tx pgx.Tx) error { return client.Start(ctx, tx, reversed(ids)...) },
		"random":     func(tx pgx.Tx) error { return client.Start(ctx, tx, shuffled(ids)...) },
		"stopping":   func(tx pgx.Tx) error { return client.Stop(ctx, tx, shuffled(ids)[:100]...) },
		"restarting": func(tx pgx.Tx) error { return client.Restart(ctx, tx, shuffled(ids)[:100]...) },
	}
	var all sync.WaitGroup
	errs := make(chan error, len(admins))
	for name, admin := range admins {
		times := 100
		if strings.HasSuffix(name, "ing") {
			times = 30
		}
		all.Go(func() {
			for range times {
				if err := b.try(ctx, func(_ context.Context, tx pgx.Tx) error { return admin(tx) }); err != nil {
					errs <- fmt.Errorf("%s: %w", name, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	e.end()
	b.whole(t, ids, 200)
}

// TestOneIDAtATimeInOppositeOrders has admins change one deployment after the other in one transaction. Two of them can only get
// in each other's way: what the caller sees is ErrRetry, and a transaction that is run again works.
func TestOneIDAtATimeInOppositeOrders(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.create(t, 10)
	b.exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = 20', current_database()); END $$")
	b.exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = 0', current_database()); END $$")
	b.wide(t, 6) // their sessions know the new settings
	e := b.engine(t, 2)
	oneByOne := func(ids []uuid.UUID, f func(context.Context, pgx.Tx, ...uuid.UUID) error) call {
		return func(ctx context.Context, tx pgx.Tx) error {
			for _, id := range ids {
				if err := f(ctx, tx, id); err != nil {
					return err
				}
			}
			return nil
		}
	}
	resize := func(ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
		return b.client.Update(ctx, tx, lifecycle.Change{Annotations: map[string]string{"at": uuid.NewString()}}, ids...)
	}
	admins := []call{
		oneByOne(ids, b.client.Start), oneByOne(reversed(ids), b.client.Stop), oneByOne(reversed(ids), b.client.Restart), oneByOne(ids, resize),
		func(ctx context.Context, tx pgx.Tx) error { return b.client.Start(ctx, tx, shuffled(ids)...) },
	}
	var all sync.WaitGroup
	var gaveWay atomic.Int64
	errs := make(chan error, len(admins))
	for _, admin := range admins {
		all.Go(func() {
			for range 5 {
				n, err := b.retry(t.Context(), admin)
				gaveWay.Add(int64(n))
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	e.end()
	require.Positive(t, gaveWay.Load(), "if nobody had to give way, this proves nothing")
	b.whole(t, ids, len(ids))
}

// TestManyCreateTheSame creates overlapping sets at once, in all orders: each is made once, and everybody is told that it is there.
func TestManyCreateTheSame(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.wide(t, 8)
	ids := newIDs(100)
	var all sync.WaitGroup
	errs := make(chan error, 32)
	for i := range 32 {
		mine := shuffled(ids)
		if i%2 == 1 {
			mine = mine[:50]
		}
		all.Go(func() {
			errs <- b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error { return b.client.Create(ctx, tx, b.news(mine)...) })
		})
	}
	all.Wait()
	for range 32 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 100, b.count(t, "SELECT count(*) FROM berth.provisioner_resources"))
	require.Equal(t, 100, b.count(t, "SELECT count(*) FROM berth.river_job"))
	require.Equal(t, 100, b.count(t, "SELECT count(*) FROM berth.events WHERE kind = 'DeploymentCreated'"))
	b.whole(t, ids, 0)
}

// TestManyAddTheSame adds one resource to the same deployments at once.
func TestManyAddTheSame(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.wide(t, 8)
	ids := newIDs(20)
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Create(ctx, tx, b.news(ids)...) })
	var all sync.WaitGroup
	errs := make(chan error, 16)
	for range 16 {
		all.Go(func() {
			errs <- b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
				return b.client.AddResource(ctx, tx, database(""), shuffled(ids)...)
			})
		})
	}
	all.Wait()
	for range 16 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 20, b.count(t, "SELECT count(*) FROM berth.provisioner_resources WHERE type = 'database'"))
	require.Equal(t, 20, b.count(t, "SELECT count(*) FROM berth.events WHERE kind = 'ResourceAsked'"))
	b.whole(t, ids, 20)
}

// whole starts everything, drives it to its end, and requires that nothing was lost and nothing doubled on the way.
func (b *bundle) whole(t *testing.T, ids []uuid.UUID, databases int) {
	t.Helper()
	one := b.count(t, "SELECT count(*) FROM berth.provisioner_resources WHERE type = 'runtime'")
	require.Equal(t, len(ids), one, "each has its runtime")
	require.Equal(t, databases, b.count(t, "SELECT count(*) FROM berth.provisioner_resources WHERE type = 'database'"))
	require.Zero(t, b.count(t, "SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation AND retry_at IS NULL"), "nothing is forgotten")
	require.Zero(t, b.count(t, "SELECT count(*) FROM berth.provisioner_resources WHERE generation > claimed_generation + 1"), "no two runs wait")
	// Every generation had a job of its own, at least.
	require.Zero(t, b.count(t, `SELECT count(*) FROM berth.provisioner_resources p WHERE generation >
		(SELECT count(*) FROM berth.river_job j WHERE (j.args ->> 'resource_id')::uuid = p.id)`))
	// What was said of the states is one unbroken story that ends at what is stored.
	require.Zero(t, b.count(t, `SELECT count(*) FROM (SELECT detail ->> 'old' AS was,
			lag(detail ->> 'new', 1, 'pending') OVER (PARTITION BY deployment_id ORDER BY id) AS before FROM berth.events WHERE kind = 'StateChanged') e WHERE was <> before`))
	require.Zero(t, b.count(t, `SELECT count(*) FROM berth.deployments d WHERE state <> coalesce(
			(SELECT detail ->> 'new' FROM berth.events e WHERE e.deployment_id = d.id AND kind = 'StateChanged' ORDER BY e.id DESC LIMIT 1), 'pending')`))
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Start(ctx, tx, ids...) })
	b.drain(t)
	require.Equal(t, len(ids), b.count(t, "SELECT count(*) FROM berth.deployments WHERE state = 'running'"), "the last intent is what came true")
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Delete(ctx, tx, ids...) })
	b.drain(t)
	require.Zero(t, b.count(t, "SELECT (SELECT count(*) FROM berth.deployments) + (SELECT count(*) FROM berth.provisioner_resources)"), "a clean slate")
	require.Equal(t, len(ids), b.count(t, "SELECT count(*) FROM berth.events WHERE kind = 'DeploymentDeleted'"))
}
