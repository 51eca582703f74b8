package reconcile

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/provisioner"
)

// watched is a fleet with one running deployment at a backend that pushes.
func watched(t *testing.T, log *counting, watch func(ctx context.Context, changed func(uuid.UUID)) error) (*fleet, *Engine, uuid.UUID) {
	t.Helper()
	b := &scripted{watch: watch}
	backends := map[string]provisioner.Provisioner{"a": b}
	f := newFleet(t, dbtest.New(t), backends)
	id := f.runtime(f.running(1)[0])
	return f, f.engine(backends, options{log: log.logger()}), id
}

// What a backend says has changed is driven anew; what it does not have is nobody's matter.
func TestWatch(t *testing.T) {
	t.Parallel()
	ids := make(chan uuid.UUID, 10)
	f, _, id := watched(t, &counting{}, func(ctx context.Context, changed func(uuid.UUID)) error {
		for {
			select {
			case id := <-ids:
				changed(id)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	ids <- uuid.New()
	ids <- id
	eventually(t, func() bool { return f.stand(id).Waiting }, "it is woken")
	require.True(t, f.stand(id).Settled, "and not unsettled")
	require.Equal(t, 1, f.count(`SELECT count(*) FROM berth.river_job WHERE priority = 2`), "behind what a person waits for")
}

// A watch that ends is begun again, however it ended, and what it says is fit to be seen.
func TestWatchThatEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func() error
		said string
	}{
		"error":   {func() error { return errors.New("dial postgres://berth:hunter22@db: gone\x00") }, "berth:***@db: gone"},
		"panic":   {func() error { panic("password=hunter22") }, "password=***"},
		"nothing": {func() error { return nil }, "it gave no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &counting{}
			begun := make(chan int, 100)
			n := 0
			watched(t, log, func(ctx context.Context, _ func(uuid.UUID)) error {
				n++
				begun <- n
				if n == 3 {
					<-ctx.Done()
					return ctx.Err()
				}
				return c.end()
			})
			for want := 1; want <= 3; want++ {
				require.Equal(t, want, <-begun)
			}
			require.Equal(t, 2, log.count("watch ended early"))
			require.Equal(t, 2, log.count(c.said))
			require.Zero(t, log.count("hunter22"))
		})
	}
}

// A place that someone holds is woken once it is let go, and keeps none of the others waiting.
func TestWakeOfWhatSomeoneHolds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, e, id := watched(t, &counting{}, func(ctx context.Context, _ func(uuid.UUID)) error { <-ctx.Done(); return nil })
	other := f.runtime(f.running(1)[0])
	tx, err := f.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.provisioner_resources WHERE id = $1 FOR NO KEY UPDATE`, id)
	require.NoError(t, err)
	require.NoError(t, e.Wake(ctx, "a", id, other))
	require.True(t, f.stand(other).Waiting)
	require.False(t, f.stand(id).Waiting)
	require.NoError(t, tx.Rollback(ctx))
	eventually(t, func() bool { return f.stand(id).Waiting }, "it is woken too")
}

// A worker starts even if somebody holds what was given up.
func TestStartWhileGivenUpIsHeld(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, _, backends := faked(t)
	id := f.runtime(f.running(1)[0])
	f.exec(`UPDATE berth.provisioner_resources SET given_up_at = now()`)
	tx, err := f.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.provisioner_resources FOR NO KEY UPDATE`)
	require.NoError(t, err)
	f.engine(backends, options{})
	require.NoError(t, tx.Rollback(ctx))
	eventually(t, func() bool { return f.stand(id).Waiting }, "it is tried again")
}
