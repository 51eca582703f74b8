package reconcile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/provisioner"
)

// before makes a function of berth.claim as a migration had it.
func (f *fleet) before(migration string) {
	f.t.Helper()
	raw, err := os.ReadFile("../db/migrations/" + migration)
	require.NoError(f.t, err)
	_, rest, found := strings.Cut(string(raw), "CREATE OR REPLACE FUNCTION berth.claim(")
	require.True(f.t, found)
	body, _, found := strings.Cut(rest, "END $$;")
	require.True(f.t, found)
	f.exec("CREATE FUNCTION berth.claim_before(" + body + "END $$")
}

// pick chooses one.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// The claim answers and writes as it did before it was written to be quick, whatever stands in the rows and whoever holds them.
func TestClaimAsBefore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	names := []string{"a", "b", "c"}
	backends := map[string]provisioner.Provisioner{}
	for _, n := range names {
		backends[n] = &scripted{}
	}
	f := newFleet(t, dbtest.New(t), backends)
	f.before("00005_pause.sql")
	live, dead, self := f.worker(true), f.worker(false), f.worker(true)
	deployments := f.create(12)
	answers, held := 0, 0
	for round := range 100 {
		f.exec(`DELETE FROM berth.provisioner_resources`)
		f.exec(`UPDATE berth.provisioners SET paused_at = CASE WHEN random() < .2 THEN now() END`)
		f.exec(`UPDATE berth.deployments SET desired_state = (ARRAY['running', 'running', 'stopped', 'deleted'])[1 + (random() * 3)::int]`)
		var ids, fences []uuid.UUID
		var ats []string
		insert := func(id uuid.UUID, at, desired string, asked bool) {
			d := &deployments[r.IntN(len(deployments))]
			if desired == "absent" && r.IntN(2) == 0 {
				d = nil
			}
			var fence, by *uuid.UUID
			var until *string
			if r.IntN(3) == 0 {
				x, w := uuid.New(), pick(r, live, dead, dead, self, uuid.New())
				fence, by, until = &x, &w, new(pick(r, "1 hour", "1 hour", "-1 second"))
			}
			f.exec(`INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, name, desired_phase, args, generation, claimed_generation, intent_generation,
				fence, leased_by, leased_until, lost, paused_at, reason, failures, failing_since)
				VALUES ($1, $2, $3, 'runtime', $4, $5, '{}', 5, $6, 1, $7, $8, now() + $9::interval, $10, CASE WHEN $11 THEN now() END, $12, 0, NULL)`,
				id, at, d, "n"+uuid.NewString()[:8], desired, pick(r, 4, 4, 4, 5), fence, by, until, pick(r, 0, 0, 0, 1, 1, 2, 2, 3), r.IntN(6) == 0, pick(r, "", "Failed"))
			if asked {
				ids, ats, fences = append(ids, id), append(ats, at), append(fences, uuid.New())
			}
		}
		for range 1 + r.IntN(14) {
			id := uuid.New()
			at := r.IntN(3)
			insert(id, names[at], pick(r, "ready", "ready", "hibernated", "absent"), r.IntN(10) > 0)
			if r.IntN(4) == 0 {
				insert(id, names[(at+1)%3], "absent", r.IntN(2) == 0)
			}
		}
		if r.IntN(3) == 0 { // what is not there
			ids, ats, fences = append(ids, uuid.New()), append(ats, "a"), append(fences, uuid.New())
		}
		if r.IntN(10) == 0 {
			ids, ats, fences = []uuid.UUID{}, []string{}, []uuid.UUID{}
		}
		other, err := f.Pool.Begin(ctx)
		require.NoError(t, err)
		if r.IntN(2) == 0 {
			_, err = other.Exec(ctx, `SELECT FROM berth.provisioner_resources WHERE id = ANY ($1) FOR NO KEY UPDATE`, ids[:len(ids)/4])
			require.NoError(t, err)
		}
		if r.IntN(2) == 0 {
			_, err = other.Exec(ctx, `SELECT FROM berth.deployments WHERE id = ANY ($1) FOR NO KEY UPDATE`, deployments[:r.IntN(4)])
			require.NoError(t, err)
		}
		takeOver := r.IntN(4) > 0
		does := func(claim string) (said []string, rows string) {
			tx, err := f.Pool.Begin(ctx)
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback(ctx)) }()
			q, err := tx.Query(ctx, `SELECT c::text FROM berth.`+claim+`($1, $2, $3, $4, interval '0', interval '6 seconds', $5, interval '0') c ORDER BY 1`, ids, ats, fences, self, takeOver)
			require.NoError(t, err)
			said, err = pgx.CollectRows(q, pgx.RowTo[string])
			require.NoError(t, err)
			// Times of this moment are the same for both, as far as they tell anything.
			require.NoError(t, tx.QueryRow(ctx, `SELECT coalesce(string_agg(((to_jsonb(p) - '{leased_until,retry_at}'::text[]) ||
				jsonb_build_object('ends', leased_until > clock_timestamp() - interval '0.9 seconds', 'later', leased_until > now() + interval '30 minutes', 'due', retry_at IS NOT NULL))::text, E'\n' ORDER BY id, provisioner), '')
				FROM berth.provisioner_resources p`).Scan(&rows))
			return said, rows
		}
		saidBefore, rowsBefore := does("claim_before")
		said, rows := does("claim")
		what := fmt.Sprintf("seed %d, round %d", seed, round)
		require.Empty(t, cmp.Diff(saidBefore, said), what)
		require.Empty(t, cmp.Diff(rowsBefore, rows), what)
		for _, s := range said {
			answers++
			if strings.HasPrefix(s, "(t,") {
				held++
			}
		}
		require.NoError(t, other.Rollback(ctx))
	}
	require.Greater(t, held, 15)
	require.Greater(t, answers-held, 30)
}
