package trials

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
	"berth/provisioner"
)

// A fleet is a database, an admin, and workers that have the same provisioners.
type fleet struct {
	*dbtest.DB
	t        *testing.T
	admin    *lifecycle.Client
	projects map[string]uuid.UUID // by their provisioners
	order    order                // of the workers
	logs     string               // directory
	started  atomic.Int64

	expected  []string // parts of lines that a log may hold at the level of errors
	deadlocks bool     // there may be some
}

// begin makes a fleet. Each provisioner gets a project that uses it.
func begin(t *testing.T, d *dbtest.DB, backends map[string]backend) *fleet {
	t.Helper()
	admin, err := lifecycle.NewClient("admin", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	f := &fleet{DB: d, t: t, admin: admin, projects: map[string]uuid.UUID{}, logs: t.TempDir()}
	f.order = order{URL: d.URL, Backends: backends}
	f.exec(worldSQL)
	var set []lifecycle.Configured
	for name, b := range backends {
		set = append(set, lifecycle.Configured{Name: name, Type: b.Type, Info: provisioner.Info{Types: []provisioner.ResourceType{provisioner.Runtime}}})
	}
	f.tx(func(ctx context.Context, tx pgx.Tx) error {
		if err := admin.RegisterProvisioners(ctx, tx, set, ""); err != nil {
			return err
		}
		o, err := admin.CreateOrganization(ctx, tx, "acme", "")
		if err != nil {
			return err
		}
		for name := range backends {
			p, err := admin.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: o.ID, Name: name, Provisioner: name})
			if err != nil {
				return err
			}
			f.projects[name] = p.ID
		}
		return nil
	})
	t.Cleanup(f.readLogs)
	t.Cleanup(func() {
		if !f.deadlocks {
			require.Zero(t, f.count(`SELECT sum(deadlocks)::int FROM pg_stat_database WHERE datname = current_database()`), "deadlocks")
		}
	})
	return f
}

// said counts how often the workers logged a text.
func (f *fleet) said(text string) (n int) {
	f.t.Helper()
	paths, err := filepath.Glob(filepath.Join(f.logs, "*.log"))
	require.NoError(f.t, err)
	for _, path := range paths {
		log, err := os.ReadFile(path)
		require.NoError(f.t, err)
		n += strings.Count(string(log), text)
	}
	return n
}

// readLogs looks for what no worker may say, whatever became of it. It runs when all have ended.
func (f *fleet) readLogs() {
	paths, err := filepath.Glob(filepath.Join(f.logs, "*.log"))
	require.NoError(f.t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(f.t, err)
		for line := range strings.Lines(string(text)) {
			if bad(line) && !f.may(line) {
				f.t.Errorf("%s: %s", filepath.Base(path), line)
			}
		}
		if f.t.Failed() {
			f.t.Logf("the end of %s:\n%s", filepath.Base(path), text[max(0, len(text)-8000):])
		}
	}
}

// riversOwn is what River logs as errors of its own that it tries again, or that does not matter any more.
var riversOwn = []string{
	"leadership.Elector: Error attempting",   // who leads its tidying: a process that slept finds its time over
	"timed out after",                        // it limits its own statements: a process that slept, or a busy machine, finds that time over
	"Failed to send job insert notification", // stopped while it wakes somebody: the job is there, and is found without
	"Error unlistening on topic",             // stopped while it waits for a notification, it has closed that connection before
}

func bad(line string) bool {
	for _, own := range riversOwn {
		if strings.Contains(line, own) {
			return false
		}
	}
	return strings.Contains(line, "level=ERROR") || strings.Contains(line, "DATA RACE") || strings.Contains(line, "panic") ||
		strings.HasPrefix(line, "fatal error")
}

func (f *fleet) may(line string) bool {
	for _, e := range f.expected {
		if strings.Contains(line, e) {
			return true
		}
	}
	return false
}

func (f *fleet) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.Pool.Exec(context.Background(), sql, args...)
	require.NoError(f.t, err)
}

func (f *fleet) tx(do func(context.Context, pgx.Tx) error) {
	f.t.Helper()
	require.NoError(f.t, pgx.BeginFunc(context.Background(), f.Pool, func(tx pgx.Tx) error { return do(context.Background(), tx) }))
}

// createAll makes so many deployments at each provisioner, in one transaction.
func (f *fleet) createAll(n int) (ids []uuid.UUID) {
	f.t.Helper()
	var all []lifecycle.NewDeployment
	for range n {
		for _, project := range f.projects {
			id := uuid.New()
			ids, all = append(ids, id), append(all, lifecycle.NewDeployment{ID: id, ProjectID: project})
		}
	}
	f.tx(func(ctx context.Context, tx pgx.Tx) error { return f.admin.Create(ctx, tx, all...) })
	return ids
}

// create makes deployments in the project of a provisioner. The annotations are as in key, value.
func (f *fleet) create(at string, n int, annotations ...string) []uuid.UUID {
	f.t.Helper()
	ids := make([]uuid.UUID, n)
	all := make([]lifecycle.NewDeployment, n)
	notes := map[string]string{}
	for i := 0; i+1 < len(annotations); i += 2 {
		notes[annotations[i]] = annotations[i+1]
	}
	for i := range ids {
		ids[i] = uuid.New()
		all[i] = lifecycle.NewDeployment{ID: ids[i], ProjectID: f.projects[at], Annotations: notes}
	}
	f.tx(func(ctx context.Context, tx pgx.Tx) error { return f.admin.Create(ctx, tx, all...) })
	return ids
}

// change is one of the calls about many deployments.
type change func(*lifecycle.Client, context.Context, pgx.Tx, ...uuid.UUID) error

func (f *fleet) change(do change, ids ...uuid.UUID) {
	f.t.Helper()
	f.tx(func(ctx context.Context, tx pgx.Tx) error { return do(f.admin, ctx, tx, ids...) })
}

// count asks for one number.
func (f *fleet) count(sql string, args ...any) (n int) {
	f.t.Helper()
	require.NoError(f.t, f.Pool.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

// none waits until a count is zero.
func (f *fleet) none(sql string, args ...any) {
	f.t.Helper()
	f.until(func() bool { return f.count(sql, args...) == 0 }, func() string { return fmt.Sprintf("%d left: %s", f.count(sql, args...), sql) })
}

// until waits for a condition.
func (f *fleet) until(is func() bool, why func() string) {
	f.t.Helper()
	late := time.After(patience)
	for tick := time.NewTicker(10 * time.Millisecond); !is(); <-tick.C {
		select {
		case <-late:
			require.FailNow(f.t, "not in time", why()+"\n"+f.picture())
		default:
		}
	}
}

// picture says how the places stand, for a person.
func (f *fleet) picture() string {
	rows, err := f.Pool.Query(context.Background(), `
		SELECT format('%s at %s: deployment %s (wished %s), wished %s, is %s, generation %s claimed %s observed %s intent %s, fence %s of %s until %s, retry %s, lost %s, failures %s: %s %s',
			p.id, p.provisioner, d.state, d.desired_state, p.desired_phase, p.phase, p.generation, p.claimed_generation, p.observed_generation, p.intent_generation,
			p.fence, p.leased_by, p.leased_until, p.retry_at, p.lost, p.failures, p.reason, p.message)
		FROM berth.provisioner_resources p LEFT JOIN berth.deployments d ON d.id = p.deployment_id
		WHERE p.fence IS NOT NULL OR p.retry_at IS NOT NULL OR d.state <> d.desired_state ORDER BY p.id LIMIT 20`)
	if err != nil {
		return err.Error()
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("at %s\n%s", time.Now().Format(time.RFC3339Nano), strings.Join(lines, "\n"))
}

// running waits until every deployment runs.
func (f *fleet) running() {
	f.t.Helper()
	f.none(`SELECT count(*) FROM berth.deployments WHERE state <> 'running'`)
}

// deployments lists all there are.
func (f *fleet) deployments() []uuid.UUID {
	f.t.Helper()
	return f.listed(`SELECT id FROM berth.deployments ORDER BY id`)
}

// listed asks for ids.
func (f *fleet) listed(sql string, args ...any) []uuid.UUID {
	f.t.Helper()
	rows, err := f.Pool.Query(context.Background(), sql, args...)
	require.NoError(f.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(f.t, err)
	return ids
}
