package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// fleet is how much there is of everything that is listed.
const fleet = 10_000

// crowded is a database with so many organizations, projects, deployments and resources, and as many events of one deployment. Half of
// what belongs to something belongs to one.
func crowded(t *testing.T) *testBundle {
	t.Helper()
	b := setup(t)
	b.provisioner("static-example", "static-other")
	for _, sql := range []string{
		`INSERT INTO berth.organizations (id, name) SELECT ('10000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, CASE WHEN i = 1 THEN 'Big' ELSE 'o' || md5(i::text) END
			FROM generate_series(1, $1::int) i`,
		`INSERT INTO berth.projects (id, organization_id, name)
			SELECT ('20000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, ('10000000-0000-0000-0000-' || lpad(CASE WHEN i <= $1 / 2 THEN '1' ELSE i::text END, 12, '0'))::uuid,
				CASE WHEN i = 1 THEN 'Web' ELSE 'p' || md5(i::text) END FROM generate_series(1, $1::int) i`,
		`INSERT INTO berth.deployments (id, project_id, desired_state, state)
			SELECT md5(i::text)::uuid, ('20000000-0000-0000-0000-' || lpad(CASE WHEN i <= $1 / 2 THEN '1' ELSE i::text END, 12, '0'))::uuid, 'running',
				CASE WHEN i % 10 = 0 THEN 'errored' ELSE 'running' END FROM generate_series(1, $1::int) i`,
		`INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, desired_phase, args, phase, reason)
			SELECT md5('r' || i)::uuid, CASE WHEN i % 100 = 0 THEN 'static-other' ELSE 'static-example' END, md5(i::text)::uuid, 'runtime', 'ready', '{"slots": 1}',
				CASE WHEN i % 10 = 0 THEN 'unknown' ELSE 'ready' END, CASE WHEN i % 10 = 0 THEN 'Failed' ELSE '' END FROM generate_series(1, $1::int) i`,
		`INSERT INTO berth.events (deployment_id, kind, actor) SELECT md5('1')::uuid, 'UpdateAsked', 'test' FROM generate_series(1, $1::int) i`,
		`INSERT INTO berth.provisioners (name, type, supports, timeout) SELECT 'p-' || i, 'static', '{runtime}', '5 minutes' FROM generate_series(1, least($1::int, 250)) i`,
		`INSERT INTO berth.static_runtimes (provisioner, host, url, audience, data_dir, slots)
			SELECT 'p-' || i, 'http://h' || i, 'http://h' || i, 'http://h' || i, '', 1 FROM generate_series(1, least($1::int, 250)) i`,
	} {
		b.exec(sql, fleet)
	}
	b.exec("VACUUM ANALYZE") // as autovacuum would have soon
	return b
}

// listings are all that come a page at a time, what goes on after a row, and the order in which SQL gives the keys of all of them.
var listings = map[string]struct {
	args []string
	key  func(row map[string]any) string
	sql  string
}{
	"Organizations": {[]string{"org", "list"}, field("name"), "SELECT name FROM berth.organizations ORDER BY lower(name)"},
	"Projects": {[]string{"project", "list"}, func(row map[string]any) string { return fmt.Sprint(row["organization"], "/", row["name"]) },
		"SELECT o.name || '/' || p.name FROM berth.projects p JOIN berth.organizations o ON o.id = p.organization_id ORDER BY lower(o.name), lower(p.name)"},
	"Deployments":  {[]string{"deployment", "list"}, field("id"), "SELECT id::text FROM berth.deployments ORDER BY id"},
	"OfOrg":        {[]string{"deployment", "list", "--org", "big"}, field("id"), "SELECT id::text FROM berth.deployment_details WHERE organization = 'Big' ORDER BY id"},
	"OfProject":    {[]string{"deployment", "list", "--project", "big/web"}, field("id"), "SELECT id::text FROM berth.deployment_details WHERE project = 'Web' ORDER BY id"},
	"Errored":      {[]string{"deployment", "list", "--state", "errored"}, field("id"), "SELECT id::text FROM berth.deployments WHERE state = 'errored' ORDER BY id"},
	"Elsewhere":    {[]string{"deployment", "list", "--provisioner", "static-other"}, field("id"), "SELECT deployment_id::text FROM berth.provisioner_resources WHERE provisioner = 'static-other' ORDER BY deployment_id"},
	"Events":       {[]string{"deployment", "events", "c4ca4238-a0b9-2382-0dcc-509a6f75849b"}, field("id"), "SELECT e.id::text FROM berth.events e WHERE e.deployment_id = md5('1')::uuid ORDER BY e.id"},
	"Resources":    {[]string{"resource", "list"}, field("id"), "SELECT id::text FROM berth.provisioner_resources ORDER BY id"},
	"There":        {[]string{"resource", "list", "--provisioner", "static-other"}, field("id"), "SELECT id::text FROM berth.provisioner_resources WHERE provisioner = 'static-other' ORDER BY id"},
	"Failed":       {[]string{"resource", "list", "--reason", "Failed"}, field("id"), "SELECT id::text FROM berth.provisioner_resources WHERE reason = 'Failed' ORDER BY id"},
	"Provisioners": {[]string{"provisioner", "list"}, field("name"), "SELECT name FROM berth.provisioners ORDER BY name"},
}

func field(name string) func(map[string]any) string {
	return func(row map[string]any) string {
		if n, is := row[name].(float64); is {
			return fmt.Sprintf("%.0f", n)
		}
		return row[name].(string)
	}
}

// TestListings lists 10,000 of everything: each page has its number of rows, all together are everything, in the order that the
// database gives; a page takes as many statements as another, reads no more rows than it shows and a few, and no plan sorts all
// there is or finds a page by reading a table from one end to the other.
func TestListings(t *testing.T) {
	t.Parallel()
	b := crowded(t)
	for name, l := range listings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := pgx.CollectRows(must(b.db.Pool.Query(t.Context(), l.sql))(t), pgx.RowTo[string])
			require.NoError(t, err)
			read := func(args ...string) (keys []string) {
				t.Helper()
				r := worker(t.Context(), b.env, slices.Concat(l.args, []string{"-o", "json"}, args)...)
				require.Zero(t, r.status, r.stderr)
				for _, row := range decode[[]map[string]any](t, r.stdout) {
					keys = append(keys, l.key(row))
				}
				return keys
			}
			require.Equal(t, want[:100], read()[:min(100, len(want))])
			var got []string
			for after := []string(nil); ; after = []string{"--after", got[len(got)-1]} {
				page := read(append(after, "--limit", "700")...)
				if len(page) == 0 {
					break
				}
				require.Len(t, page, min(700, len(want)-len(got)))
				got = append(got, page...)
			}
			require.Equal(t, want, got)
			sorted := 0
			if slices.ContainsFunc(l.args, func(a string) bool { return strings.HasPrefix(a, "--") }) {
				sorted = len(want) // what a filter leaves may be sorted
			}
			b.bounded(t, l.args, sorted, 1, 100)
			b.bounded(t, append(l.args, "--after", want[len(want)/2]), sorted, 1, 100)
		})
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// recorder keeps what a command asks of the database, and how many rows that gives.
type recorder struct {
	mu         sync.Mutex
	statements []pgx.TraceQueryStartData
	rows       int64
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = append(r.statements, d)
	return ctx
}

func (r *recorder) TraceQueryEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows += d.CommandTag.RowsAffected()
}

// bounded reads pages of two sizes and looks at what that asks of the database.
func (b *testBundle) bounded(t *testing.T, args []string, sorted int, sizes ...int) {
	t.Helper()
	config, err := pgxpool.ParseConfig(b.db.URL)
	require.NoError(t, err)
	client, err := lifecycle.NewClient("test", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	var took []int
	for _, size := range sizes {
		r := &recorder{}
		config := config.Copy()
		config.ConnConfig.Tracer = r
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		b.page(t, &admin{client, pool}, append(args, "--limit", fmt.Sprint(size)))
		pool.Close()
		took = append(took, len(r.statements))
		require.LessOrEqual(t, r.rows, int64(3*size+10), "%v: what a page holds, and a few", args)
		for _, s := range r.statements {
			plan := b.plan(t, s)
			plan.walk(func(n node) {
				if strings.Contains(n.Type, "Sort") {
					in := 0.0
					for _, p := range n.Plans {
						in += p.Rows
					}
					require.LessOrEqual(t, in, float64(max(3*size+10, sorted)), "%v sorts more than its page: %s", args, s.SQL)
				}
				// What goes with the rows of a page is looked up by their keys, or hashed while a table is so small that this is less.
				if n.Type == "Seq Scan" && !strings.Contains(s.SQL, "= ANY(") {
					require.NotContains(t, []string{"deployments", "provisioner_resources", "events", "organizations", "projects"}, n.Relation, "%v reads a whole table: %s", args, s.SQL)
				}
			})
		}
	}
	require.Equal(t, took[0], took[1], "%v: as many statements for a small page as for a large one", args)
}

// page runs a listing on a database that is open already.
func (b *testBundle) page(t *testing.T, ad *admin, args []string) {
	t.Helper()
	flags := map[string]string{}
	for i := 2; i+1 < len(args); i++ {
		if name, is := strings.CutPrefix(args[i], "--"); is {
			flags[name] = args[i+1]
		}
	}
	after := func() uuid.UUID { return uuid.MustParse(cmp.Or(flags["after"], uuid.Nil.String())) }
	var limit, event int
	_, err := fmt.Sscan(flags["limit"], &limit)
	require.NoError(t, err)
	switch args[0] + " " + args[1] {
	case "org list":
		_, err = ad.Organizations(t.Context(), ad.pool, flags["after"], limit)
	case "project list":
		organization, name, _ := strings.Cut(flags["after"], "/")
		_, err = ad.Projects(t.Context(), ad.pool, organization, name, limit)
	case "deployment list":
		organization, project, _ := strings.Cut(flags["project"], "/")
		_, err = ad.List(t.Context(), ad.pool, lifecycle.Filter{Organization: cmp.Or(flags["org"], organization), Project: project, State: flags["state"],
			Provisioner: flags["provisioner"], After: after(), Limit: limit})
	case "deployment events":
		if flags["after"] != "" {
			_, err = fmt.Sscan(flags["after"], &event)
			require.NoError(t, err)
		}
		_, err = ad.Events(t.Context(), ad.pool, uuid.MustParse(args[2]), int64(event), limit)
	case "resource list":
		_, err = ad.Places(t.Context(), ad.pool, lifecycle.PlaceFilter{Provisioner: flags["provisioner"], Reason: flags["reason"], After: after(), Limit: limit})
	case "provisioner list":
		var known []lifecycle.Known
		known, err = ad.ProvisionerPage(t.Context(), ad.pool, flags["after"], limit)
		require.NoError(t, err)
		_, err = ad.listed(t.Context(), known)
	default:
		t.Fatalf("no listing %v", args)
	}
	require.NoError(t, err)
}

// node is a step of a plan that was carried out.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Plans    []node  `json:"Plans"`
}

func (n node) walk(look func(node)) {
	look(n)
	for _, p := range n.Plans {
		p.walk(look)
	}
}

// plan is how a statement is carried out where reading whole tables is discouraged: then only what no index helps reads one, whatever
// the planner knows of a table at the moment.
func (b *testBundle) plan(t *testing.T, s pgx.TraceQueryStartData) node {
	t.Helper()
	if !strings.Contains(s.SQL, "SELECT") {
		return node{}
	}
	var raw json.RawMessage
	require.NoError(t, pgx.BeginFunc(t.Context(), b.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off"); err != nil {
			return err
		}
		return tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+s.SQL, s.Args...).Scan(&raw)
	}), s.SQL)
	return decode[[]struct{ Plan node }](t, string(raw))[0].Plan
}
