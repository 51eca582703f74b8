package db_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbstatic"
	"berth/db/dbtest"
	"berth/internal/defaults"
	"berth/internal/stub"
	"berth/jobs"
	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/static"
	"berth/reconcile"
)

// kept is the first version whose statements have to be kept once another one follows it. Those before it were kept as far as a
// program with them was ever on main.
const kept = 7

// statements are what the programs of a version send, by version and name. They are kept by tools/statements.sh.
func statements(t *testing.T) map[int64]map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/statements/*.sql")
	require.NoError(t, err)
	all := map[int64]map[string]string{}
	for _, f := range files {
		version, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(f), ".sql"), 10, 64)
		require.NoError(t, err)
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		all[version] = map[string]string{}
		for _, s := range strings.Split("\n"+string(text), "\n-- name: ")[1:] {
			name, _, _ := strings.Cut(s, "\n")
			name, _, _ = strings.Cut(name, " ")
			all[version][name] = "-- name: " + s
		}
		require.Greater(t, len(all[version]), 50, f)
	}
	return all
}

// The program of a version is still at work when the next migration comes, so what it sends is kept before that lands.
func TestStatementsAreKept(t *testing.T) {
	t.Parallel()
	all := statements(t)
	require.Contains(t, all, int64(4))
	files, err := filepath.Glob("migrations/*.sql")
	require.NoError(t, err)
	for _, f := range files[:len(files)-1] {
		v, err := strconv.ParseInt(filepath.Base(f)[:5], 10, 64)
		require.NoError(t, err)
		if v >= kept {
			require.Contains(t, all, v, "keep what programs of version %d send: tools/statements.sh main >db/testdata/statements/%05d.sql", v, v)
		}
	}
}

// answer is what a statement takes and gives.
type answer struct {
	Takes []uint32
	Gives []string
}

func describe(t *testing.T, pool *pgxpool.Pool, sent map[string]string) map[string]answer {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	out := map[string]answer{}
	for name, sql := range sent {
		s, err := conn.Conn().Prepare(t.Context(), "", sql)
		require.NoError(t, err, name)
		a := answer{Takes: s.ParamOIDs}
		for _, f := range s.Fields {
			a.Gives = append(a.Gives, fmt.Sprintf("%s %d", f.Name, f.DataTypeOID))
		}
		out[name] = a
	}
	return out
}

// Every version that programs knew is brought to the newest with rows in it, while a worker of it is at work. It goes on, its
// statements mean what they meant, and a worker of now drives what it finds and what is new.
func TestUpgradeBesideAnOldWorker(t *testing.T) {
	t.Parallel()
	newest := shape(t, dbtest.New(t).Pool)
	for version, sent := range statements(t) {
		t.Run(fmt.Sprintf("%05d", version), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			d := dbtest.NewEmpty(t)
			fillTo(t, d.Pool, version)
			rows := counts(t, d.Pool)
			meant := describe(t, d.Pool, sent)
			_, err := d.Pool.Exec(ctx, `INSERT INTO berth.provisioners (name, type, supports, timeout) VALUES ($1, 'static', '{runtime}', '1 hour')`, oldPlace)
			require.NoError(t, err)

			conn, err := d.Open(t, db.PoolOptions{MaxConns: 1, Worker: true}).Acquire(ctx)
			require.NoError(t, err)
			o := &old{conn: conn, sent: sent, worker: uuid.New()}
			working, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- o.work(working) }()
			t.Cleanup(func() { stop(); conn.Release() })
			goesOn := func(what string) {
				t.Helper()
				late := time.After(time.Minute)
				for until := o.rounds.Load() + 3; o.rounds.Load() < until; {
					select {
					case err := <-ended:
						require.NoError(t, err, what)
					case <-late:
						t.Fatal("it does not get on " + what)
					case <-time.After(time.Millisecond):
					}
				}
			}
			goesOn("before the migration")
			require.NoError(t, db.Migrate(ctx, d.Pool))
			goesOn("after it")
			require.Empty(t, cmp.Diff(newest, shape(t, d.Pool)))
			require.Empty(t, cmp.Diff(meant, describe(t, d.Pool, sent)), "what it sends means what it meant")
			for table, n := range rows {
				require.GreaterOrEqual(t, counts(t, d.Pool)[table], n, "rows of %s outlive the migration", table)
			}
			driven(t, d)
			goesOn("beside a worker of now")
			stop()
			require.NoError(t, <-ended)
		})
	}
}

// Every version, also those that no program was made for, is brought to the newest with rows in it, and a worker goes on from there.
func TestUpgradeFromEachVersion(t *testing.T) {
	t.Parallel()
	newest := shape(t, dbtest.New(t).Pool)
	known, err := db.Status(t.Context(), dbtest.NewEmpty(t).Pool)
	require.NoError(t, err)
	for version := int64(1); version < known.Schema.Latest; version++ {
		t.Run(fmt.Sprintf("%05d", version), func(t *testing.T) {
			t.Parallel()
			d := dbtest.NewEmpty(t)
			fillTo(t, d.Pool, version)
			rows := counts(t, d.Pool)
			require.Positive(t, rows["deployments"])
			require.NoError(t, db.Migrate(t.Context(), d.Pool))
			require.Empty(t, cmp.Diff(newest, shape(t, d.Pool)))
			require.NoError(t, db.RequireCurrent(t.Context(), d.Pool))
			now := counts(t, d.Pool)
			for table, n := range rows {
				require.Equal(t, n, now[table], "rows of %s outlive the migration", table)
			}
			driven(t, d)
		})
	}
}

// counts is how many rows there are of what the fixtures put in and no old worker touches.
func counts(t *testing.T, pool *pgxpool.Pool) map[string]int {
	t.Helper()
	out := map[string]int{}
	for table, which := range map[string]string{
		"deployments": "id::text LIKE '00000000-%'", "provisioner_resources": "id::text LIKE '00000000-%'", "deleted_resources": "id::text LIKE '00000000-%'",
		"events": "deployment_id::text LIKE '00000000-%'", "organizations": "true", "projects": "true", "static_slots": "resource_id::text LIKE '00000000-%'",
	} {
		if len(column(t, pool, "SELECT 'there' WHERE to_regclass($1) IS NOT NULL", "berth."+table)) == 0 {
			continue // not yet
		}
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM berth."+table+" WHERE "+which).Scan(&n))
		out[table] = n
	}
	return out
}

// driven has a worker of now do what the fixtures leave to be done, and something new, and then let go of all of it.
func driven(t *testing.T, d *dbtest.DB) {
	t.Helper()
	ctx := context.Background()
	log := slog.New(slog.DiscardHandler)
	admin, err := lifecycle.NewClient("new", log)
	require.NoError(t, err)
	runtime, err := stub.Start(ctx, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, runtime.Close()) }()
	pool := d.Open(t, db.PoolOptions{MaxConns: defaults.EnginePool, Worker: true})
	spec := provisioner.Encode(map[string]any{"runtimes": []any{map[string]any{"host": runtime.URL(), "slots": 8}}})
	backends := map[string]provisioner.Provisioner{}
	var set []lifecycle.Configured
	for _, name := range []string{"static-a", "static-b"} {
		p, err := static.Factory(dbstatic.New(pool))(name, spec, provisioner.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.(*static.Static).Close()) }()
		backends[name] = p
		set = append(set, lifecycle.Configured{Name: name, Type: static.Type, Info: p.Info()})
	}
	tx := func(f func(pgx.Tx) error) { t.Helper(); require.NoError(t, pgx.BeginFunc(ctx, d.Pool, f)) }
	tx(func(tx pgx.Tx) error { return admin.RegisterProvisioners(ctx, tx, set, "static-a") })
	// Who held it is gone, and what is not as wished is due.
	_, err = d.Pool.Exec(ctx, `UPDATE berth.provisioner_resources SET retry_at = now(), leased_until = CASE WHEN leased_until IS NOT NULL THEN now() END
		WHERE id::text LIKE '00000000-%' AND phase <> desired_phase`)
	require.NoError(t, err)

	e := reconcile.New(reconcile.Config{Pool: pool, Lifecycle: admin, Provisioners: backends, Logger: log, Version: "new"})
	queue, err := jobs.NewClient(d.Open(t, db.PoolOptions{MaxConns: defaults.QueuePool, Queue: true}), jobs.Config{Driver: e, Logger: log})
	require.NoError(t, err)
	e.Serve(jobs.NewQueues(queue, 0))
	defer func() {
		stopping, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		require.NoError(t, queue.StopAndCancel(stopping))
		require.NoError(t, e.Stop(stopping))
	}()
	require.NoError(t, e.Start(ctx))
	require.NoError(t, queue.Start(ctx))
	fresh := uuid.New()
	project := uuid.MustParse("00000000-0000-0000-0000-000000000002")
	tx(func(tx pgx.Tx) error {
		return admin.Create(ctx, tx, lifecycle.NewDeployment{ID: fresh, ProjectID: project})
	})
	none := func(query string, args ...any) {
		t.Helper()
		require.Eventually(t, func() bool {
			var n int
			require.NoError(t, d.Pool.QueryRow(ctx, query, args...).Scan(&n))
			return n == 0
		}, time.Minute, 10*time.Millisecond, query)
	}
	const ours = ` WHERE (id::text LIKE '00000000-%' OR id = $1)`
	none(`SELECT count(*) FROM berth.deployments`+ours+` AND state <> 'running'`, fresh)
	none(`SELECT count(*) FROM berth.provisioner_resources WHERE id::text LIKE '00000000-%' AND desired_phase = 'absent'`)
	tx(func(tx pgx.Tx) error {
		return admin.Delete(ctx, tx, fresh, uuid.MustParse("00000000-0000-0000-0000-000000000003"), uuid.MustParse("00000000-0000-0000-0000-000000000004"))
	})
	none(`SELECT count(*) FROM berth.deployments`+ours, fresh)
}
