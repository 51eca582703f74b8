package db_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
)

// However many places there are, no more are read than was allowed, and none that is settled and looked at no more.
func TestMeasureIsBounded(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	for _, sql := range []string{
		`INSERT INTO berth.provisioners (name, type, supports, timeout) VALUES ('a', 'static', '{runtime}', '5 minutes')`,
		`INSERT INTO berth.organizations (name) VALUES ('acme')`,
		`INSERT INTO berth.projects (organization_id, name) SELECT id, 'web' FROM berth.organizations`,
		`INSERT INTO berth.deployments (id, project_id, desired_state, state)
			SELECT gen_random_uuid(), p.id, 'running', CASE WHEN n <= 100 THEN 'running' WHEN n <= 200 THEN 'pending' ELSE 'errored' END FROM berth.projects p, generate_series(1, 300) n`,
		`INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, desired_phase, args, phase, generation, claimed_generation, observed_generation, retry_at, given_up_at)
			SELECT gen_random_uuid(), 'a', d.id, 'runtime', 'ready', '{}', CASE state WHEN 'running' THEN 'ready' ELSE 'pending' END, 1, 1, CASE state WHEN 'running' THEN 1 ELSE 0 END,
				CASE state WHEN 'pending' THEN now() END, CASE state WHEN 'errored' THEN now() END FROM berth.deployments d`,
		`INSERT INTO berth.static_runtimes (provisioner, host, url, audience, data_dir, slots) VALUES ('a', 'h', 'u', 'u', '', 1)`,
		`INSERT INTO berth.static_slots (resource_id, provisioner, slots, wanted, ticket) SELECT id, 'a', 0, 2, row_number() OVER () FROM berth.provisioner_resources WHERE phase = 'pending'`,
	} {
		_, err := d.Pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	pool := d.Open(t, db.PoolOptions{MaxConns: 2, Worker: true})
	for most, want := range map[int]struct{ unsettled, waiting int64 }{1000: {200, 200}, 10: {20, 10}} {
		f, err := db.Measure(t.Context(), pool, time.Minute, most)
		require.NoError(t, err)
		require.Equal(t, want.unsettled, f.Unsettled["a"].Places)
		require.Equal(t, db.Waiting{Places: want.waiting, Slots: 2 * want.waiting}, f.Waiting["a"])
	}

	for name, s := range db.FigureStatements {
		var raw []byte
		require.NoError(t, pool.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+s.SQL, append([]any{pgx.QueryExecModeExec}, s.Args...)...).Scan(&raw))
		var plan any
		require.NoError(t, json.Unmarshal(raw, &plan))
		for _, table := range wholly(plan) {
			require.NotContains(t, []string{"provisioner_resources", "deployments", "static_slots", "river_job"}, table, "%s reads all of it: %s", name, raw)
		}
	}
}

// wholly are the tables that a plan reads from one end to the other.
func wholly(plan any) (tables []string) {
	switch p := plan.(type) {
	case []any:
		for _, x := range p {
			tables = append(tables, wholly(x)...)
		}
	case map[string]any:
		if p["Node Type"] == "Seq Scan" {
			tables = append(tables, p["Relation Name"].(string))
		}
		for _, x := range p {
			tables = append(tables, wholly(x)...)
		}
	}
	return tables
}
