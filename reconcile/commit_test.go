package reconcile

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/provisioner"
)

// round claims places by hand and makes an outcome of each.
func (o *one) round(ids ...uuid.UUID) (out []*outcome) {
	o.t.Helper()
	for _, id := range ids {
		p, err := o.claimOnce(context.Background(), id, "a")
		require.NoError(o.t, err)
		require.NotNil(o.t, p)
		seen := provisioner.Observation{Phase: p.desired}
		x := verdict(time.Now(), o.backends["a"], p, seen, nil)
		x.state, x.config = json.RawMessage(`{"of": "`+id.String()+`"}`), p.config
		x.result = make(chan error, 1)
		out = append(out, x)
	}
	return out
}

// Outcomes that are stored together do not depend on each other: one that can not be stored, one that someone holds and one that
// came too late hold up nobody.
func TestCommitGroup(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	var ids []uuid.UUID
	ds := o.create(6)
	for _, d := range ds {
		ids = append(ids, o.runtime(d))
	}
	round := o.round(ids...)
	bad, busy, late := round[1], round[2], round[3]
	bad.state = json.RawMessage(`{"a": "\ud800"}`)
	tx, err := o.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM berth.deployments WHERE id = $1 FOR NO KEY UPDATE`, ds[2])
	require.NoError(t, err)
	o.exec(`UPDATE berth.provisioner_resources SET fence = gen_random_uuid() WHERE id = $1`, ids[3])
	o.commitGroup(ctx, round)
	for i, x := range round {
		err := <-x.result
		switch x {
		case bad:
			require.ErrorContains(t, err, "invalid input syntax for type json")
		case busy:
			require.ErrorIs(t, err, errBusy)
		case late:
			require.ErrorIs(t, err, errFenced)
		default:
			require.NoError(t, err)
			require.Equal(t, "running", o.state(ds[i]))
		}
	}
	require.NoError(t, tx.Rollback(ctx))
	// What could not be stored as it was is stored as that.
	o.commitGroup(ctx, []*outcome{bad, busy})
	require.NoError(t, <-bad.result)
	require.NoError(t, <-busy.result)
	s := o.stand(ids[1])
	require.Equal(t, "Unstorable", s.Reason)
	require.Equal(t, "{}", s.State)
	require.Equal(t, "running", o.state(ds[2]))
	require.True(t, o.stand(ids[3]).Leased, "what others hold is theirs")
	require.Equal(t, "{}", o.stand(ids[3]).State)
}

// What is gone goes with its row, or is tried again: it is never stored as a place that is settled at being absent, which nothing
// would look at any more.
func TestGoneIsNeverStored(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	o.tx(func(tx pgx.Tx) error { return o.admin.Delete(ctx, tx, o.deployment) })
	x := o.round(o.id)[0]
	require.True(t, x.gone)
	// As if somebody held the row while it was to go, and let go of it before the rest was stored.
	rows, err := dbsqlc.New().PlaceStore(ctx, o.Pool, &dbsqlc.PlaceStoreParams{
		Ids: []uuid.UUID{x.id}, Provisioners: []string{"a"}, Fences: []uuid.UUID{x.fence}, Phases: []string{"absent"}, Reasons: []string{""}, Messages: []string{""},
		States: []json.RawMessage{x.state}, Configs: []json.RawMessage{x.config}, Met: []bool{true}, Failed: []bool{false}, GivenUp: []bool{false}, Waits: []bool{false},
		Gone: []bool{true}, Aside: []bool{false}, Retries: []time.Duration{never}, Locked: []uuid.UUID{o.deployment}, Grace: defaults.Grace,
	})
	require.NoError(t, err)
	require.Empty(t, rows)
	require.True(t, o.stand(o.id).Leased)
	o.commitGroup(ctx, []*outcome{x})
	require.NoError(t, <-x.result)
	require.Zero(t, o.count(`SELECT (SELECT count(*) FROM berth.deployments) + (SELECT count(*) FROM berth.provisioner_resources)`))
}

// One that was turned around while it went stays: what was seen of it is stored, and it is driven as it is wished now.
func TestGoneButWishedBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	o.exec(`UPDATE berth.provisioner_resources SET desired_phase = 'absent'`)
	x := o.round(o.id)[0]
	o.exec(`UPDATE berth.provisioner_resources SET desired_phase = 'ready', generation = generation + 1, intent_generation = generation + 1`)
	o.commitGroup(ctx, []*outcome{x})
	require.NoError(t, <-x.result)
	s := o.stand(o.id)
	require.Equal(t, "absent", s.Phase)
	require.True(t, s.Waiting && !s.Settled && !s.Leased)
	require.Zero(t, o.count(`SELECT count(*) FROM berth.deleted_resources`))
}

// A place that something is booked for is not gone, whatever its backend says.
func TestStillHeld(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := newOne(t, options{})
	o.exec(`CREATE TABLE public.booked (id uuid, provisioner text, FOREIGN KEY (id, provisioner) REFERENCES berth.provisioner_resources)`)
	o.exec(`INSERT INTO public.booked SELECT id, provisioner FROM berth.provisioner_resources`)
	others := o.create(5)
	o.tx(func(tx pgx.Tx) error { return o.admin.Delete(ctx, tx, append(others, o.deployment)...) })
	ids := []uuid.UUID{o.id}
	for _, d := range others {
		ids = append(ids, o.runtime(d))
	}
	round := o.round(ids...)
	o.commitGroup(ctx, round)
	require.ErrorContains(t, <-round[0].result, "violates foreign key constraint")
	for _, x := range round[1:] {
		require.NoError(t, <-x.result, "the others are gone")
	}
	o.commitGroup(ctx, round[:1])
	require.NoError(t, <-round[0].result)
	s := o.stand(o.id)
	require.Equal(t, stand{
		Desired: "absent", Phase: "unknown", Reason: "StillHeld", Message: "it was said to be gone while something is still booked for it",
		State: "{}", Config: "{}", Failures: 1, HasLook: true,
	}, s)
	require.Equal(t, "deleting", o.state(o.deployment))
	o.exec(`DELETE FROM public.booked`)
	o.wake(o.id)
	o.drive(o.Engine, o.id)
	require.Zero(t, o.count(`SELECT (SELECT count(*) FROM berth.deployments) + (SELECT count(*) FROM berth.provisioner_resources)`))
}
