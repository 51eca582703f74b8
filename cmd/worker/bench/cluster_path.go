package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// pathBound is how long deployments may take to run that were made together, beside what each may.
const pathBound = 10 * time.Minute

// A path is a worker that gives deployments their objects on a cluster.
type path struct {
	*rig
	worker   *worker
	arrivals *arrivals
	requests *requests
	unlisten func()
}

// path starts the worker, and makes deployments before any that count: its watches stand then, and its connections.
func (g *ground) path(ctx context.Context, url string) (p *path, err error) {
	p = &path{arrivals: &arrivals{}, requests: &requests{}}
	defer func() {
		if err != nil {
			p, err = nil, errors.Join(err, p.end())
		}
	}()
	if p.rig, err = g.rig(ctx, url, p.requests); err != nil {
		return p, err
	}
	if p.unlisten, err = p.listen(ctx, p.arrivals.heard); err != nil {
		return p, err
	}
	w, err := p.work(ctx, nil)
	if err != nil {
		return p, err
	}
	p.worker = w
	for range warm {
		if _, err := p.run(ctx, 1); err != nil {
			return p, err
		}
	}
	if p.requests.watches.Load() == 0 {
		return p, errors.New("the worker does not watch the cluster: it would measure how often it looks")
	}
	return p, nil
}

// run makes deployments in one transaction. It takes from before BEGIN until the commit is visible by which the last of them runs.
func (p *path) run(ctx context.Context, n int) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pathBound, fmt.Errorf("not so after %v", pathBound))
	defer cancel()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	p.arrivals.expect(ids...)
	began := time.Now()
	if err := p.create(ctx, ids...); err != nil {
		return 0, err
	}
	last, err := p.arrivals.wait(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w%s", err, p.why(ctx))
	}
	return last.Sub(began), nil
}

// why is what is said of a deployment that does not run.
func (p *path) why(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var id uuid.UUID
	var reason, message string
	err := p.admin.QueryRow(ctx, `SELECT id, reason, message FROM berth.deployment_details WHERE state <> 'running' ORDER BY created_at, id LIMIT 1`).Scan(&id, &reason, &message)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": of %s is said: %s: %s", id, reason, message)
}

// settle waits until the queue has nothing left to do.
func (p *path) settle(ctx context.Context) error { return p.until(ctx, time.Minute, unfinished) }

// end stops the worker, and everything else. It may be called when only a part was started.
func (p *path) end() error {
	err := p.rest()
	if p.unlisten != nil {
		p.unlisten()
	}
	if p.rig != nil {
		err = errors.Join(err, p.close())
	}
	return err
}

// rest stops the worker. The database stays.
func (p *path) rest() error {
	if p.worker == nil {
		return nil
	}
	w := p.worker
	p.worker = nil
	return w.stop()
}
