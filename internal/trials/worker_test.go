package trials

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db"
	"berth/db/dbstatic"
	"berth/internal/defaults"
	"berth/jobs"
	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/kubernetes"
	"berth/provisioner/static"
	"berth/reconcile"
)

// orderEnv holds the order of a worker process. It makes the test binary one.
const orderEnv = "BERTH_TRIAL_WORKER"

// An order is what a worker process is told when it starts.
type order struct {
	URL        string
	Backends   map[string]backend // by the names of their provisioners
	Default    string
	MaxWorkers int
	Deaf       bool // its backends do not listen when a call is ended
	OldClock   bool // the clock that decides whether it may act does not move
	Version    string
	Rollout    float64 // resources a second that a changed configuration is brought to; 0: it announces none
}

// A backend is one that workers have configured.
type backend struct {
	Type    string          // world, static or kubernetes
	Delay   time.Duration   // of a step in the world
	Spec    json.RawMessage // of a static pool or a cluster
	Cluster string          // the kubeconfig of an administrator, to whose cluster requests are forwarded, so that they can be held
}

// worker is what runs in a worker process.
type worker struct {
	order
	log     *slog.Logger
	holds   *holds
	runs    runs
	sends   underWay     // requests that write to a cluster
	refused atomic.Int64 // writes that came after the lease was lost
}

// work is the main function of a worker process; it returns the exit status. The first signal stops it, a second one kills it, as
// `worker run` has it, and it ends with the test.
func work(text string) int {
	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(signalled, func() {
		stop()
		cancel()
	})
	w := &worker{log: slog.New(slog.NewTextHandler(os.Stderr, nil)), holds: newHolds(say)}
	if err := json.Unmarshal([]byte(text), &w.order); err != nil {
		w.log.Error("order", slog.Any("error", err))
		return 2
	}
	go w.listen()
	if err := w.run(ctx); err != nil {
		w.log.Error("the worker failed", slog.Any("error", err))
		return 1
	}
	return 0
}

var saying sync.Mutex

// say tells the test something.
func say(line string) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(line)
}

// listen does what the test says, and ends the process when the test is gone.
func (w *worker) listen() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "hold":
			var h hold
			if err := json.Unmarshal([]byte(rest), &h); err != nil {
				w.log.Error("hold", slog.Any("error", err))
			}
			w.holds.arm(h)
			say("armed")
		case "on":
			w.holds.on <- struct{}{}
		case "drain":
			go func() {
				w.runs.drain()
				w.sends.drain()
				say(fmt.Sprint("drained ", w.refused.Load()))
			}()
		}
	}
	os.Exit(9)
}

func (w *worker) run(ctx context.Context) (err error) {
	plain, err := url.Parse(w.URL)
	if err != nil {
		return err
	}
	q := plain.Query()
	q.Set("sslmode", "disable") // so that the tap can read along
	plain.RawQuery = q.Encode()
	pool, err := db.Open(ctx, plain.String(), db.PoolOptions{MaxConns: defaults.EnginePool, Worker: true, Name: "berth worker", Dial: w.holds.dial})
	if err != nil {
		return err
	}
	defer pool.Close()
	own, err := db.Open(ctx, plain.String(), db.PoolOptions{MaxConns: defaults.QueuePool, Queue: true, Name: "berth queue", Dial: w.holds.dial})
	if err != nil {
		return err
	}
	defer own.Close()
	client, err := lifecycle.NewClient("worker", w.log)
	if err != nil {
		return err
	}
	configured, digests := map[string]provisioner.Provisioner{}, map[string]string{}
	var known []lifecycle.Configured
	for name, b := range w.Backends {
		p, err := w.backend(pool, name, b)
		if err != nil {
			return err
		}
		configured[name] = p
		if print, ok := p.Provisioner.(interface{ Fingerprint() string }); ok && w.Rollout > 0 {
			digests[name] = print.Fingerprint()
		}
		defer p.Close()
		known = append(known, lifecycle.Configured{Name: name, Type: b.Type, Info: p.Info()})
	}
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return client.RegisterProvisioners(ctx, tx, known, w.Default) }); err != nil {
		return err
	}
	c := reconcile.Config{
		Pool: pool, Lifecycle: client, Provisioners: configured, Digests: digests, RolloutRate: w.Rollout, Logger: w.log, Version: cmp.Or(w.Version, "trial"),
	}
	if w.OldClock {
		start := time.Now()
		c.Now = func() time.Time { return start }
	}
	engine := reconcile.New(c)
	w.runs.Driver = engine
	queue, err := jobs.NewClient(own, jobs.Config{MaxWorkers: w.MaxWorkers, Driver: &w.runs, Logger: w.log, ID: uuid.NewString()})
	if err != nil {
		return err
	}
	engine.Serve(jobs.NewQueues(queue, w.MaxWorkers))
	if err := engine.Start(ctx); err != nil {
		return errors.Join(err, engine.Stop(ctx))
	}
	if err := queue.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	say("ready " + engine.ID().String())
	<-ctx.Done()
	say("stopping " + engine.ID().String())
	soft, cancel := context.WithTimeout(context.Background(), defaults.ShutdownSoft+defaults.ShutdownHard)
	defer cancel()
	err = queue.Stop(soft)
	hard, cancel := context.WithTimeout(context.Background(), defaults.ShutdownHard)
	defer cancel()
	return errors.Join(err, engine.Stop(hard))
}

func (w *worker) backend(pool *pgxpool.Pool, name string, b backend) (*tapped, error) {
	switch b.Type {
	case "world":
		return &tapped{&world{pool, name, b.Delay}, w}, nil
	case static.Type:
		p, err := static.Factory(dbstatic.New(pool))(name, b.Spec, provisioner.Options{})
		return &tapped{p, w}, err
	case kubernetes.Type:
		if b.Cluster != "" {
			if err := w.forward(b.Cluster); err != nil {
				return nil, err
			}
		}
		p, err := clusters(name, b.Spec, provisioner.Options{})
		return &tapped{p, w}, err
	}
	return nil, fmt.Errorf("no type %q", b.Type)
}

// tapped is a backend whose calls can be held.
type tapped struct {
	provisioner.Provisioner
	w *worker
}

type method func(context.Context, *provisioner.Resource) (provisioner.Observation, error)

func (t *tapped) call(ctx context.Context, name string, do method, r *provisioner.Resource) (provisioner.Observation, error) {
	if t.w.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	t.w.holds.pass(begun, name, false)
	seen, err := do(ctx, r)
	t.w.holds.pass(done, name, false)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "BR001" {
		t.w.refused.Add(1)
	}
	return seen, err
}

func (t *tapped) Reconcile(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	return t.call(ctx, "Reconcile", t.Provisioner.Reconcile, r)
}

func (t *tapped) Hibernate(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	return t.call(ctx, "Hibernate", t.Provisioner.Hibernate, r)
}

func (t *tapped) Deprovision(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	return t.call(ctx, "Deprovision", t.Provisioner.Deprovision, r)
}

// Close ends what the backend does beside its calls.
func (t *tapped) Close() error {
	if c, ok := t.Provisioner.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func (t *tapped) Activate(ctx context.Context) error {
	if a, ok := t.Provisioner.(provisioner.Activator); ok {
		return a.Activate(ctx)
	}
	return nil
}

func (t *tapped) Watch(ctx context.Context, changed func(uuid.UUID)) error {
	if w, ok := t.Provisioner.(provisioner.Watcher); ok {
		return w.Watch(ctx, changed)
	}
	<-ctx.Done()
	return nil
}

// runs is the engine, and what of it is under way.
type runs struct {
	jobs.Driver
	underWay
}

// Drive passes on.
func (r *runs) Drive(ctx context.Context, resource uuid.UUID, name string) error {
	defer r.begin()()
	return r.Driver.Drive(ctx, resource, name)
}

// DriveBackground passes on too.
func (r *runs) DriveBackground(ctx context.Context, resource uuid.UUID, name string) error {
	defer r.begin()()
	return r.Driver.DriveBackground(ctx, resource, name)
}
