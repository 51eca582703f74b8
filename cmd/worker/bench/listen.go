package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// watched tells us of each deployment when the commit that has it running is visible.
const watched = `
CREATE FUNCTION berth.bench_running() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('berth_bench', NEW.id::text); RETURN NULL; END $$;
CREATE TRIGGER bench_running AFTER UPDATE OF state ON berth.deployments FOR EACH ROW WHEN (NEW.state = 'running') EXECUTE FUNCTION berth.bench_running()`

// listen tells heard, one after another, of the deployments that run from now on, until stop is called, which waits for the last of it.
func (r *rig) listen(ctx context.Context, heard func(uuid.UUID)) (stop func(), err error) {
	if _, err := r.admin.Exec(ctx, watched, pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, fmt.Errorf("watch deployments: %w", err)
	}
	c, err := r.admin.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch deployments: %w", err)
	}
	if _, err := c.Exec(ctx, `LISTEN berth_bench`); err != nil {
		c.Release()
		return nil, fmt.Errorf("watch deployments: %w", err)
	}
	listening, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		defer c.Release()
		for {
			n, err := c.Conn().WaitForNotification(listening)
			if err != nil {
				return // whoever waits for it says that it did not come
			}
			heard(uuid.MustParse(n.Payload))
		}
	})
	return func() { cancel(); ended.Wait() }, nil
}

// arrivals waits for deployments to run.
type arrivals struct {
	mu   sync.Mutex
	left map[uuid.UUID]bool
	last time.Time
	all  chan struct{}
}

// expect begins to wait. Nothing else is waited for by then.
func (a *arrivals) expect(ids ...uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left, a.all = map[uuid.UUID]bool{}, make(chan struct{})
	for _, id := range ids {
		a.left[id] = true
	}
}

func (a *arrivals) heard(id uuid.UUID) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.left[id] {
		return
	}
	delete(a.left, id)
	a.last = now
	if len(a.left) == 0 {
		close(a.all)
	}
}

var errNotAll = errors.New("not all run")

// wait returns when the last of them was seen to run.
func (a *arrivals) wait(ctx context.Context) (time.Time, error) {
	a.mu.Lock()
	all := a.all
	a.mu.Unlock()
	select {
	case <-all:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.left) > 0 {
		return a.last, fmt.Errorf("%w: %d do not: %w", errNotAll, len(a.left), context.Cause(ctx))
	}
	return a.last, nil
}
