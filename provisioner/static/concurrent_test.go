package static_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbstatic"
	"berth/provisioner/static"
)

// TestNeverOver: whatever many do at once, in several processes' stores, no host is over its slots at any instant, no slot is
// lost, nobody waits beside room, and no two deadlock.
func TestNeverOver(t *testing.T) {
	t.Parallel()
	for _, pack := range []bool{false, true} {
		w := newWorld(t, "pool")
		pool := static.Pool{Name: "pool", Pack: pack}
		hosts := []static.Host{{Key: "http://a:80", URL: "http://a", Slots: 7}, {Key: "http://b:80", URL: "http://b", Slots: 12}, {Key: "http://c:80", URL: "http://c", Slots: 3}}
		_, err := w.store.Declare(t.Context(), pool, hosts)
		require.NoError(t, err)
		stop := w.guard(`SELECT count(*) FROM berth.static_runtimes WHERE used > slots`)

		const resources, steps, stores = 24, 40, 3
		var all sync.WaitGroup
		for s := range stores {
			store := dbstatic.New(w.db.Open(t, db.PoolOptions{MaxConns: 6, Worker: true}))
			for range resources / stores {
				all.Go(func() { w.wander(store, pool, uuid.New(), steps) })
			}
			all.Go(func() {
				for range steps {
					w.disturb(store, pool, hosts, s)
				}
			})
		}
		all.Wait()
		stop()
		w.used("pool")
		// Everything open again: who waits gets what there is, and then everything goes.
		for _, h := range hosts {
			require.NoError(t, w.store.Cordon(t.Context(), "pool", h.URL, false))
			_, err := w.store.Report(t.Context(), pool, h.Key, true)
			require.NoError(t, err)
		}
		rows, _ := w.actual(t, "pool")
		for id := range rows {
			_, err := w.store.Release(t.Context(), pool, id, w.fence("pool", id), false)
			require.NoError(t, err)
		}
		for host, n := range w.used("pool") {
			require.Zero(t, n, host)
		}
		w.noDeadlock()
	}
}

// wander takes, resizes, stops and gives back at random.
func (w *world) wander(store *dbstatic.Store, pool static.Pool, id uuid.UUID, steps int) {
	ctx := context.Background()
	for range steps {
		fence := w.fence(pool.Name, id)
		n := 1 + rand.IntN(5)
		var err error
		switch rand.IntN(5) {
		case 0:
			_, err = store.Release(ctx, pool, id, fence, false)
		case 1:
			_, err = store.Release(ctx, pool, id, fence, true)
		default:
			err = w.takeTwice(store, pool, static.Take{Resource: id, Fence: fence, Slots: n})
		}
		if err != nil {
			w.t.Errorf("%v", err)
			return
		}
	}
}

// takeTwice takes what was just taken.
func (w *world) takeTwice(store *dbstatic.Store, pool static.Pool, take static.Take) error {
	first, err := store.Take(context.Background(), pool, take)
	if err != nil {
		return err
	}
	take.ReadyOn = first.Key
	second, err := store.Take(context.Background(), pool, take)
	if err == nil && first.Slots == take.Slots && (second.Slots != take.Slots || second.Key != first.Key) {
		w.t.Errorf("what was held is not held: %d slots on %s became %d on %s", first.Slots, first.Key, second.Slots, second.Key)
	}
	return err
}

// disturb closes and opens hosts, and declares them anew.
func (w *world) disturb(store *dbstatic.Store, pool static.Pool, hosts []static.Host, s int) {
	ctx := context.Background()
	h := hosts[rand.IntN(len(hosts))]
	var err error
	switch (rand.IntN(4) + s) % 4 {
	case 0:
		err = store.Cordon(ctx, pool.Name, h.URL, rand.IntN(2) == 0)
	case 1:
		_, err = store.Report(ctx, pool, h.Key, rand.IntN(4) == 0)
	case 2:
		_, err = store.Declare(ctx, pool, hosts)
	default:
		_, err = store.Assign(ctx, pool)
	}
	if err != nil {
		w.t.Errorf("%v", err)
	}
}

// TestLateWrites: a run that lost its lease changes nothing, and is told so in a way that the engine knows.
func TestLateWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pool")
	pool := static.Pool{Name: "pool"}
	_, err := w.store.Declare(t.Context(), pool, []static.Host{{Key: "http://a:80", URL: "http://a", Slots: 8}})
	require.NoError(t, err)
	lost := func(err error) {
		t.Helper()
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "BR001", pg.Code)
	}
	id, never, gone := uuid.New(), uuid.New(), uuid.New()
	old := w.fence("pool", id)
	_, err = w.store.Take(t.Context(), pool, static.Take{Resource: id, Fence: old, Slots: 2})
	require.NoError(t, err)
	w.fence("pool", id)
	oldNever := w.fence("pool", never)
	w.fence("pool", never)

	for _, late := range []static.Take{{Resource: id, Fence: old, Slots: 5}, {Resource: id, Fence: old, Slots: 1}, {Resource: id, Fence: old, Slots: 2},
		{Resource: never, Fence: oldNever, Slots: 1}, {Resource: gone, Fence: uuid.New(), Slots: 1}} {
		_, err := w.store.Take(t.Context(), pool, late)
		lost(err)
	}
	for _, keep := range []bool{false, true} {
		_, err := w.store.Release(t.Context(), pool, id, old, keep)
		lost(err)
	}
	rows, waiting := w.actual(t, "pool")
	require.Equal(t, map[uuid.UUID]modelRow{id: {Host: "http://a:80", Slots: 2, Wanted: 2}}, rows)
	require.Empty(t, waiting)
}

// TestLateBesideOthers: those who are sent to the database together do not share a lost lease.
func TestLateBesideOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pool")
	pool := static.Pool{Name: "pool"}
	_, err := w.store.Declare(t.Context(), pool, []static.Host{{Key: "http://a:80", URL: "http://a", Slots: 1000}})
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 200 {
		id := uuid.New()
		fence := w.fence("pool", id)
		if i%5 == 0 {
			w.fence("pool", id)
		}
		all.Go(func() {
			_, err := w.store.Take(context.Background(), pool, static.Take{Resource: id, Fence: fence, Slots: 1})
			var pg *pgconn.PgError
			if isLost := errors.As(err, &pg) && pg.Code == "BR001"; isLost != (i%5 == 0) || err != nil && !isLost {
				w.t.Errorf("resource %d: %v", i, err)
			}
		})
	}
	all.Wait()
	require.Equal(t, map[string]int{"http://a": 160}, w.used("pool"))
}

// TestOneResourceAtOnce: a late call and a new one of one resource, sent at one moment, never give it two places.
func TestOneResourceAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pool")
	pool := static.Pool{Name: "pool"}
	_, err := w.store.Declare(t.Context(), pool, []static.Host{{Key: "http://a:80", URL: "http://a", Slots: 100}})
	require.NoError(t, err)
	id := uuid.New()
	fence := w.fence("pool", id)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if p, err := w.store.Take(context.Background(), pool, static.Take{Resource: id, Fence: fence, Slots: 3}); err != nil || p.Slots != 3 {
				w.t.Errorf("%+v, %v", p, err)
			}
		})
	}
	all.Wait()
	require.Equal(t, map[string]int{"http://a": 3}, w.used("pool"))
}

// TestTheDatabaseRefuses: used is the sum of what is held for every writer, and grows past a host's slots for none.
func TestTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pool")
	pool := static.Pool{Name: "pool"}
	_, err := w.store.Declare(t.Context(), pool, []static.Host{{Key: "http://a:80", URL: "http://a", Slots: 4}, {Key: "http://b:80", URL: "http://b", Slots: 4}})
	require.NoError(t, err)
	w.hold(pool, "http://a:80", 3)
	one, two := uuid.New(), uuid.New()
	w.fence("pool", one)
	w.fence("pool", two)
	refused := func(constraint, query string, args ...any) {
		t.Helper()
		_, err := w.db.Pool.Exec(t.Context(), query, args...)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, constraint, pg.ConstraintName, pg.Message)
	}
	const insert = `INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted) VALUES ($1, 'pool', $2, $3, $3)`
	refused("static_runtimes_has_room", insert, one, "http://a:80", 2)
	refused("static_runtimes_has_room", `UPDATE berth.static_slots SET slots = 5, wanted = 5`)
	refused("static_runtimes_has_room", `INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted)
		VALUES ($1, 'pool', 'http://a:80', 1, 1), ($2, 'pool', 'http://a:80', 1, 1)`, one, two)
	refused("static_slots_place_fkey", insert, uuid.New(), "http://b:80", 1)
	refused("static_slots_runtime_fkey", insert, one, "http://c:80", 1)
	refused("static_slots_place_fkey", `DELETE FROM berth.provisioner_resources WHERE id IN (SELECT resource_id FROM berth.static_slots)`)
	refused("static_slots_runtime_fkey", `DELETE FROM berth.static_runtimes`)
	require.Equal(t, map[string]int{"http://a": 3, "http://b": 0}, w.used("pool"))

	w.exec(insert, one, "http://a:80", 1)
	w.exec(`INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted) VALUES ($1, 'pool', 'http://b:80', 1, 1) ON CONFLICT DO NOTHING`, one)
	require.Equal(t, map[string]int{"http://a": 4, "http://b": 0}, w.used("pool"))
	w.exec(`UPDATE berth.static_slots SET host = 'http://b:80' WHERE resource_id = $1`, one)
	require.Equal(t, map[string]int{"http://a": 3, "http://b": 1}, w.used("pool"))
	w.exec(`UPDATE berth.static_slots SET slots = 4, wanted = 4 WHERE resource_id <> $1`, one)
	w.exec(`UPDATE berth.static_runtimes SET slots = 1 WHERE used = 4`)
	w.exec(`UPDATE berth.static_slots SET slots = 3, wanted = 3 WHERE slots = 4`)
	require.Equal(t, map[string]int{"http://a": 3, "http://b": 1}, w.used("pool"), "shrinking is always allowed")
	w.exec(`TRUNCATE berth.static_slots`)
	require.Equal(t, map[string]int{"http://a": 0, "http://b": 0}, w.used("pool"))
}

// TestAPlaceThatIsBeingDeleted holds up nobody: its run has lost its lease.
func TestAPlaceThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pool")
	pool := static.Pool{Name: "pool"}
	_, err := w.store.Declare(t.Context(), pool, []static.Host{{Key: "http://a:80", URL: "http://a", Slots: 8}})
	require.NoError(t, err)
	store := dbstatic.New(w.db.Open(t, db.PoolOptions{MaxConns: 2, Worker: true}))
	id, other := uuid.New(), uuid.New()
	fence, otherFence := w.fence("pool", id), w.fence("pool", other)
	tx, err := w.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM berth.provisioner_resources WHERE id = $1 FOR UPDATE`, id)
	require.NoError(t, err)
	_, err = store.Take(t.Context(), pool, static.Take{Resource: id, Fence: fence, Slots: 1})
	require.ErrorContains(t, err, "BR001")
	p, err := store.Take(t.Context(), pool, static.Take{Resource: other, Fence: otherFence, Slots: 1})
	require.NoError(t, err)
	require.Equal(t, 1, p.Slots)
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = store.Take(t.Context(), pool, static.Take{Resource: id, Fence: fence, Slots: 1})
	require.NoError(t, err)
}

// TestCallersThatLeave: who gives up is let go at once, and the others are not cut off with it.
func TestCallersThatLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pool")
	pool := static.Pool{Name: "pool"}
	_, err := w.store.Declare(t.Context(), pool, []static.Host{{Key: "http://a:80", URL: "http://a", Slots: 1000}})
	require.NoError(t, err)
	// Somebody holds the pool's lock, so that all of them wait.
	tx, err := w.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('pool', 2))`)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	var leaving, staying sync.WaitGroup
	for i := range 20 {
		id := uuid.New()
		fence := w.fence("pool", id)
		if i%2 == 0 {
			leaving.Go(func() {
				if _, err := w.store.Take(ctx, pool, static.Take{Resource: id, Fence: fence, Slots: 1}); !errors.Is(err, context.Canceled) {
					w.t.Errorf("who left is told: %v", err)
				}
			})
			continue
		}
		staying.Go(func() {
			if p, err := w.store.Take(context.Background(), pool, static.Take{Resource: id, Fence: fence, Slots: 1}); err != nil || p.Slots != 1 {
				w.t.Errorf("who stayed got %d slots and: %v", p.Slots, err)
			}
		})
	}
	cancel()
	leaving.Wait()
	require.NoError(t, tx.Rollback(t.Context()))
	staying.Wait()
	require.GreaterOrEqual(t, w.used("pool")["http://a"], 10)
}
