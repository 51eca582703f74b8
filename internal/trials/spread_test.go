package trials

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
)

// Many who ask in one second are spread, and do not all go to the host that was emptiest when they looked.
func TestSpreadOverHosts(t *testing.T) {
	t.Parallel()
	f := begin(t, dbtest.New(t), map[string]backend{"pool": pool(t, "spread", 20, newHosts(t, 22)...)})
	end := f.guard()
	for range 4 {
		f.start()
	}
	f.createAtOnce(220)
	f.running()
	f.check()
	for host, used := range f.used() {
		require.InDelta(t, 10, used, 1, "%s: %v", host, f.used())
	}
	f.clean()
	end()
}

// A pool that packs fills one host before it begins the next, at any instant, however many ask at once.
func TestPackedHostAfterHost(t *testing.T) {
	t.Parallel()
	f := begin(t, dbtest.New(t), map[string]backend{"pool": pool(t, "pack", 10, newHosts(t, 22)...)})
	end := f.guard(rule{"a second host is begun before the first is full", `SELECT greatest(count(*) - 1, 0) FROM berth.static_runtimes WHERE used > 0 AND used < slots`})
	for range 4 {
		f.start()
	}
	f.createAtOnce(195)
	f.running()
	f.check()
	end() // what is deleted leaves hosts half full
	full, begun := 0, 0
	for _, used := range f.used() {
		switch {
		case used == 10:
			full++
		case used > 0:
			begun++
		}
	}
	require.Equal(t, [2]int{19, 1}, [2]int{full, begun}, "%v", f.used())
	f.clean()
}

// createAtOnce makes deployments by many transactions, several at once, in less than a second.
func (f *fleet) createAtOnce(n int) {
	f.t.Helper()
	began := time.Now()
	const by, each = 4, 5
	failed := make(chan error, by)
	for w := range by {
		go func() {
			for i := w * each; i < n; i += by * each {
				some := make([]lifecycle.NewDeployment, min(each, n-i))
				for k := range some {
					some[k] = lifecycle.NewDeployment{ID: uuid.New(), ProjectID: f.projects["pool"]}
				}
				err := pgx.BeginFunc(context.Background(), f.Pool, func(tx pgx.Tx) error {
					return f.admin.Create(context.Background(), tx, some...)
				})
				if err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range by {
		require.NoError(f.t, <-failed)
	}
	f.t.Logf("%d made in %v", n, time.Since(began))
}

// used is how many slots each host has given.
func (f *fleet) used() map[string]int {
	f.t.Helper()
	rows, err := f.Pool.Query(f.t.Context(), `SELECT host, used FROM berth.static_runtimes`)
	require.NoError(f.t, err)
	used := map[string]int{}
	var (
		host string
		n    int
	)
	_, err = pgx.ForEachRow(rows, []any{&host, &n}, func() error { used[host] = n; return nil })
	require.NoError(f.t, err)
	return used
}
