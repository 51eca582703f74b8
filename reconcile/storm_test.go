package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbstatic"
	"berth/db/dbtest"
	"berth/internal/defaults"
	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/provisionertest"
	"berth/provisioner/static"
)

// storm is a fleet on a static pool and a scripted world of databases, of which several workers with configurations of their own
// take care.
type storm struct {
	*fleet
	fake  *provisionertest.Fake
	hosts []*httptest.Server
	down  []atomic.Bool
	start sync.Mutex // held while a worker starts: one that is harmed by then does not start
}

const poolName, baseName = "pool", "base"

func newStorm(t *testing.T, hosts int) *storm {
	t.Helper()
	s := &storm{fake: provisionertest.NewFake(baseName, "database"), down: make([]atomic.Bool, hosts)}
	for i := range hosts {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if s.down[i].Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		t.Cleanup(h.Close)
		s.hosts = append(s.hosts, h)
	}
	named := &scripted{info: provisioner.Info{Types: []provisioner.ResourceType{provisioner.Runtime}}}
	s.fleet = newFleet(t, dbtest.New(t), map[string]provisioner.Provisioner{poolName: named, baseName: s.fake})
	return s
}

// worker starts one whose pool has these slots on each host; none, and the host is not listed.
func (s *storm) worker(pack bool, slots ...int) *node {
	s.t.Helper()
	s.start.Lock()
	defer s.start.Unlock()
	strategy := "spread"
	if pack {
		strategy = "pack"
	}
	var listed []map[string]any
	for i, n := range slots {
		if n > 0 {
			listed = append(listed, map[string]any{"host": s.hosts[i].URL, "slots": n})
		}
	}
	store := dbstatic.New(s.Open(s.t, db.PoolOptions{MaxConns: defaults.EnginePool, Worker: true, Name: "storm"}))
	p, err := static.Factory(store)(poolName, provisioner.Encode(map[string]any{"strategy": strategy, "runtimes": listed}), provisioner.Options{})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, p.(*static.Static).Close()) })
	return s.startWith(options{pool: db.PoolOptions{Name: "storm"}}, map[string]provisioner.Provisioner{poolName: p, baseName: struct{ provisioner.Provisioner }{s.fake}})
}

// wish asks for something at random of some of the deployments.
func (s *storm) wish(ids []uuid.UUID) error {
	ctx := context.Background()
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		switch rand.N(9) {
		case 0:
			return s.admin.Start(ctx, tx, ids...)
		case 1:
			return s.admin.Stop(ctx, tx, ids...)
		case 2:
			return s.admin.Restart(ctx, tx, ids...)
		case 3, 4:
			return s.admin.Update(ctx, tx, lifecycle.Change{Slots: 1 + rand.N(4)}, ids...)
		case 5:
			return s.admin.Update(ctx, tx, lifecycle.Change{Annotations: map[string]string{"k": fmt.Sprint(rand.N(1000))}}, ids...)
		case 6:
			return s.admin.AddResource(ctx, tx, lifecycle.NewResource{Type: "database", Name: "main"}, ids...)
		case 7:
			return s.admin.RemoveResource(ctx, tx, "database", "main", ids...)
		}
		return s.admin.Delete(ctx, tx, ids[0])
	})
}

// sabotage does harm, none of which may last.
func (s *storm) sabotage() error {
	ctx := context.Background()
	s.start.Lock()
	defer s.start.Unlock()
	var sql string
	switch rand.N(10) {
	case 0:
		sql = `DELETE FROM berth.river_job`
	case 1:
		sql = `UPDATE berth.river_job SET state = 'cancelled', finalized_at = now() WHERE finalized_at IS NULL AND state <> 'running'`
	case 2:
		sql = `UPDATE berth.river_queue SET paused_at = now()`
	case 3, 4:
		sql = `UPDATE berth.river_queue SET paused_at = NULL`
	case 5:
		sql = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'storm' AND random() < 0.3`
	case 6:
		sql = `INSERT INTO berth.river_job (kind, args, queue, max_attempts, state) VALUES ('provision_resource', '{}', 'provisioner-pool', 1, 'available'),
			('provision_resource', '{"resource_id": 7}', 'provisioner-pool', 1, 'available'), ('hibernate_resource', '{"resource_id": "` + uuid.NewString() + `", "provisioner": "pool"}', 'shared', 1, 'available')`
	case 7:
		sql = `UPDATE berth.static_runtimes SET cordoned_at = CASE WHEN random() < 0.3 THEN now() END`
	default:
		s.down[rand.N(len(s.down))].Store(rand.N(2) == 0)
		return nil
	}
	_, err := s.Pool.Exec(ctx, sql)
	return err
}

// heal ends all harm.
func (s *storm) heal() {
	for i := range s.down {
		s.down[i].Store(false)
	}
	s.exec(`UPDATE berth.river_queue SET paused_at = NULL`)
	s.exec(`UPDATE berth.static_runtimes SET cordoned_at = NULL`)
}

// broken are counts of what must not be at any moment.
var broken = map[string]string{
	"used is not what is held": `SELECT count(*) FROM berth.static_runtimes o WHERE o.used <> (SELECT coalesce(sum(s.slots), 0) FROM berth.static_slots s
		WHERE s.provisioner = o.provisioner AND s.host = o.host)`,
	"held on no host": `SELECT count(*) FROM berth.static_slots s WHERE s.host IS NOT NULL AND NOT EXISTS
		(SELECT FROM berth.static_runtimes o WHERE o.provisioner = s.provisioner AND o.host = s.host)`,
	"a deadlock": `SELECT coalesce(sum(deadlocks), 0)::int FROM pg_stat_database WHERE datname = current_database()`,
}

// unsettled are counts of what may be while something is under way, and must not be at some moment once nothing happens any more.
var unsettled = map[string]string{
	"not as wished, and does not wait for room": `SELECT count(*) FROM berth.deployments d WHERE d.state <> d.desired_state AND NOT (d.state IN ('pending', 'updating') AND EXISTS
		(SELECT FROM berth.provisioner_resources p JOIN berth.static_slots s ON s.resource_id = p.id AND s.ticket IS NOT NULL
		 WHERE p.deployment_id = d.id AND p.reason = 'NoCapacity'))`,
	"a lease is left":  `SELECT count(*) FROM berth.provisioner_resources WHERE fence IS NOT NULL`,
	"a claim is left":  `SELECT count(*) FROM berth.provisioner_resources WHERE claimed_generation < generation`,
	"nobody will look": `SELECT count(*) FROM berth.provisioner_resources WHERE retry_at IS NULL AND (observed_generation < intent_generation OR phase <> desired_phase)`,
	"waits, and is not wished": `SELECT count(*) FROM berth.static_slots s JOIN berth.provisioner_resources p ON p.id = s.resource_id AND p.provisioner = s.provisioner
		WHERE s.ticket IS NOT NULL AND p.desired_phase <> 'ready'`,
	"has other slots than it asked for": `SELECT count(*) FROM berth.provisioner_resources p LEFT JOIN berth.static_slots s ON s.resource_id = p.id AND s.provisioner = p.provisioner
		WHERE p.type = 'runtime' AND p.desired_phase = 'ready' AND coalesce(s.wanted, 0) <> (p.args ->> 'slots')::int`,
	"says another size than it has": `SELECT count(*) FROM berth.provisioner_resources p JOIN berth.static_slots s ON s.resource_id = p.id AND s.provisioner = p.provisioner
		JOIN berth.static_runtimes o ON o.provisioner = s.provisioner AND o.host = s.host
		WHERE p.desired_phase = 'ready' AND ((p.config ->> 'slots')::int, p.config ->> 'host') IS DISTINCT FROM (s.slots, o.url)`,
	"the last that was published is not so": `SELECT count(*) FROM berth.provisioner_resources p JOIN berth.deployments d ON d.id = p.deployment_id,
		LATERAL (SELECT e.detail FROM berth.events e WHERE e.resource_id = p.id AND e.kind IN ('RuntimePublished', 'ConfigChanged') ORDER BY e.id DESC LIMIT 1) e
		WHERE p.type = 'runtime' AND d.state = 'running' AND (e.detail ->> 'host', e.detail ->> 'slots') IS DISTINCT FROM (p.config ->> 'host', p.config ->> 'slots')`,
	"runs and was never published": `SELECT count(*) FROM berth.provisioner_resources p JOIN berth.deployments d ON d.id = p.deployment_id
		WHERE p.type = 'runtime' AND d.state = 'running' AND NOT EXISTS (SELECT FROM berth.events e WHERE e.resource_id = p.id AND e.kind = 'RuntimePublished')`,
}

// wrong are those of the counts that are not zero, all at one moment: a place may be looked at again at any time.
func (s *storm) wrong(counts map[string]string) (wrong []string) {
	s.t.Helper()
	var all []string
	for name, sql := range counts {
		all = append(all, fmt.Sprintf("SELECT '%s' AS name, (%s) AS n", name, sql))
	}
	rows, err := s.Pool.Query(context.Background(), "SELECT name || ': ' || n FROM ("+strings.Join(all, "\nUNION ALL ")+") c WHERE n > 0 ORDER BY 1")
	require.NoError(s.t, err)
	wrong, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	return wrong
}

func (s *storm) picture() string {
	rows, err := s.Pool.Query(context.Background(), `SELECT format('%s %s %s/%s: wished %s is %s gen %s/%s/%s intent %s fence %s retry %s given up %s deadline %s lost %s fail %s now %s: %s %s | %s %s/%s t%s', d.id, p.type, d.desired_state, d.state, p.desired_phase, p.phase,
		p.generation, p.claimed_generation, p.observed_generation, p.intent_generation, p.fence, p.retry_at, p.given_up_at, p.deadline_at, p.lost, p.failures, now(), p.reason, p.message, s.host, s.slots, s.wanted, s.ticket)
		FROM berth.provisioner_resources p LEFT JOIN berth.deployments d ON d.id = p.deployment_id LEFT JOIN berth.static_slots s ON s.resource_id = p.id ORDER BY 1`)
	if err != nil {
		return err.Error()
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err.Error()
	}
	return strings.Join(lines, "\n")
}

// Everything at once: wishes, harm, workers that come and go with other configurations. When it ends all is as it was wished last.
func TestStorm(t *testing.T) {
	t.Parallel()
	s := newStorm(t, 3)
	s.worker(false, 12, 8, 6)
	second := s.worker(false, 12, 8, 6)
	var mu sync.Mutex
	ids := s.create(14)
	end := time.Now().Add(4 * time.Second)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for time.Now().Before(end) {
				mu.Lock()
				i := rand.N(len(ids) - 3)
				some := slices.Clone(ids[i : i+1+rand.N(3)])
				mu.Unlock()
				err := s.wish(some)
				switch {
				case errors.Is(err, lifecycle.ErrConflict), errors.Is(err, lifecycle.ErrNotFound): // it was deleted
					mu.Lock()
					if k := slices.Index(ids, some[0]); k >= 0 {
						ids[k] = s.create(1)[0]
					}
					mu.Unlock()
				case err != nil && !errors.Is(err, lifecycle.ErrRetry):
					t.Errorf("a wish: %v", err)
				}
				pause(context.Background(), 10*time.Millisecond)
			}
		})
	}
	all.Go(func() {
		for time.Now().Before(end) {
			if err := s.sabotage(); err != nil {
				t.Logf("sabotage: %v", err)
			}
			pause(context.Background(), 100*time.Millisecond)
		}
	})
	for time.Now().Before(end) {
		second.stop()
		switch rand.N(3) {
		case 0:
			second = s.worker(false, 3, 3, 0)
		case 1:
			second = s.worker(true, 12, 8, 6)
		case 2:
			second = s.worker(false, 0, 20, 6)
		}
		pause(context.Background(), time.Second)
	}
	all.Wait()
	second.stop()
	s.heal()
	s.worker(false, 12, 8, 6)
	late := time.Now().Add(90 * time.Second)
	for left := s.wrong(unsettled); len(left) > 0; left = s.wrong(unsettled) {
		require.Empty(t, s.wrong(broken), "%s", s.picture())
		require.True(t, time.Now().Before(late), "not in time: %s\n%s", left, s.picture())
		pause(context.Background(), 50*time.Millisecond)
	}
	require.Empty(t, s.wrong(broken), "%s", s.picture())
	rows, err := s.Pool.Query(context.Background(), `SELECT id FROM berth.deployments`)
	require.NoError(t, err)
	left, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	s.exec(`DELETE FROM berth.river_job WHERE args = '{}' OR args ->> 'resource_id' = '7'`)
	s.deleteAll(left)
	require.Zero(t, s.count(`SELECT count(*) FROM berth.static_slots`))
	require.Zero(t, s.count(`SELECT coalesce(sum(used), 0) FROM berth.static_runtimes`))
	require.Empty(t, s.fake.World.Things())
	require.Empty(t, s.fake.World.Overlaps())
}

// What failed while its runtime was down, and is not to be looked at for long, runs soon after the runtime answers again.
func TestRuntimeThatAnswersAgain(t *testing.T) {
	t.Parallel()
	s := newStorm(t, 2)
	s.worker(false, 4, 4)
	d := s.create(2)
	s.allRunning()
	s.down[0].Store(true)
	s.down[1].Store(true)
	s.tx(func(tx pgx.Tx) error {
		return s.admin.Update(context.Background(), tx, lifecycle.Change{Slots: 2}, d...)
	})
	s.none(`SELECT count(*) FROM berth.static_runtimes WHERE unhealthy_since IS NULL`)
	require.Eventually(t, func() bool {
		return s.count(`WITH u AS (UPDATE berth.provisioner_resources SET failures = 12, retry_at = now() + interval '1 hour'
		WHERE failures > 0 AND fence IS NULL AND claimed_generation = generation RETURNING 1) SELECT count(*) FROM u`) == 2
	}, time.Minute, 10*time.Millisecond, "what is asked of them fails for now")
	s.down[0].Store(false)
	s.down[1].Store(false)
	s.allRunning()
}
