package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/internal/postgres"
)

func TestStat(t *testing.T) {
	ctx := context.Background()
	set := map[string]string{"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "all"}
	for k, v := range Settings {
		set[k] = v
	}
	s, err := postgres.Start(ctx, postgres.Options{Temporary: true, Name: "bench", Settings: set})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := newRig(ctx, s.URL("postgres"), 20000)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.drain(ctx, 3000, func(n int) error {
		ids := make([]uuid.UUID, n)
		for i := range ids {
			ids[i] = uuid.New()
		}
		err := r.create(ctx, ids...)
		_, _ = r.admin.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SELECT pg_stat_statements_reset()`, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	rows, _ := r.admin.Query(ctx, `SELECT calls, rows, (min_exec_time*1000)::int, round((mean_exec_time * 1000)::numeric)::int, round(total_exec_time)::int, toplevel, left(regexp_replace(query, '\s+', ' ', 'g'), 120) FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 32`)
	for rows.Next() {
		var calls, n, lo, mean, total int
		var top bool
		var q string
		_ = rows.Scan(&calls, &n, &lo, &mean, &total, &top, &q)
		fmt.Printf("%6d calls %6d rows min %5d us mean %6d us total %6d ms top=%-5v %s\n", calls, n, lo, mean, total, top, q)
	}
}
