package jobs

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/internal/defaults"
)

type driverFunc func(ctx context.Context, id uuid.UUID, provisioner string) error

// Drive calls the function.
func (f driverFunc) Drive(ctx context.Context, id uuid.UUID, provisioner string) error {
	return f(ctx, id, provisioner)
}

// DriveBackground says that it was asked for.
func (f driverFunc) DriveBackground(ctx context.Context, id uuid.UUID, provisioner string) error {
	return f(ctx, id, provisioner+" in the background")
}

func work(t *testing.T, d *dbtest.DB, drive driverFunc) {
	t.Helper()
	client, err := NewClient(d.Pool, Config{MaxWorkers: 10, Driver: drive, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, NewQueues(client, 10).Work("a"))
	require.NoError(t, client.Start(context.Background()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, client.StopAndCancel(ctx))
	})
}

func insert(t *testing.T, d *dbtest.DB, wakes ...Wake) {
	t.Helper()
	i, err := NewInserter(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(context.Background(), d.Pool, func(tx pgx.Tx) error { return i.Wake(context.Background(), tx, wakes) }))
}

func eventually(t *testing.T, d *dbtest.DB, want int, count string, args ...any) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, d.Pool.QueryRow(context.Background(), count, args...).Scan(&n))
		return n == want
	}, 30*time.Second, 10*time.Millisecond, count)
}

func TestEveryKindIsDriven(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	id := uuid.New()
	driven := make(chan string, 12)
	work(t, d, func(_ context.Context, got uuid.UUID, provisioner string) error {
		driven <- got.String() + "@" + provisioner
		return nil
	})
	for _, k := range []Kind{Provision, Hibernate, Deprovision} {
		insert(t, d, Wake{Kind: k, ResourceID: id, Provisioner: "a"}, Wake{Kind: k, ResourceID: id, Provisioner: "gone", Shared: true},
			Wake{Kind: k, ResourceID: id, Provisioner: "a", Background: true}, Wake{Kind: k, ResourceID: id, Provisioner: "gone", Shared: true, Background: true})
	}
	eventually(t, d, 12, `SELECT count(*) FROM berth.river_job WHERE state = 'completed'`)
	close(driven)
	var all []string
	for x := range driven {
		all = append(all, x)
	}
	var want []string
	for range 3 {
		want = append(want, id.String()+"@a", id.String()+"@gone", id.String()+"@a in the background", id.String()+"@gone in the background")
	}
	require.ElementsMatch(t, want, all)
}

// A NUL byte in the text of one job's error would keep the completions of every job of the client from being stored.
func TestPoisonedErrorsDoNotStopTheOthers(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	bad := map[uuid.UUID]func() error{
		uuid.New(): func() error { return errors.New("a \x00 byte") },
		uuid.New(): func() error { panic("a \x00 byte") },
		uuid.New(): func() error { return errors.New(strings.Repeat("\xff long", 1<<17)) },
	}
	work(t, d, func(_ context.Context, id uuid.UUID, _ string) error {
		if f := bad[id]; f != nil {
			return f()
		}
		return nil
	})
	var wakes []Wake
	for id := range bad {
		wakes = append(wakes, Wake{Kind: Provision, ResourceID: id, Provisioner: "a"})
	}
	for range 20 {
		wakes = append(wakes, Wake{Kind: Provision, ResourceID: uuid.New(), Provisioner: "a"})
	}
	insert(t, d, wakes...)
	eventually(t, d, 20, `SELECT count(*) FROM berth.river_job WHERE state = 'completed'`)
	eventually(t, d, 3, `SELECT count(*) FROM berth.river_job WHERE errors IS NOT NULL AND length(errors[1]::text) < 20000`)
}

func TestRolledBackWithItsTransaction(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	i, err := NewInserter(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	refused := errors.New("refused")
	err = pgx.BeginFunc(context.Background(), d.Pool, func(tx pgx.Tx) error {
		require.NoError(t, i.Wake(context.Background(), tx, []Wake{{Kind: Provision, ResourceID: uuid.New(), Provisioner: "a"}}))
		return refused
	})
	require.ErrorIs(t, err, refused)
	eventually(t, d, 0, `SELECT count(*) FROM berth.river_job`)
}

// A row that is no object would stop the queue's rescuer for every process.
func TestRowsThatWouldStopTheRescuerAreRefused(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	for _, column := range []string{"args", "metadata"} {
		_, err := d.Pool.Exec(context.Background(), `INSERT INTO berth.river_job (kind, max_attempts, queue, args) VALUES ('x', 1, 'q', '{}')`)
		require.NoError(t, err)
		_, err = d.Pool.Exec(context.Background(), `UPDATE berth.river_job SET `+column+` = '[]'`)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "23514", pg.Code, "a check refuses it")
	}
}

func TestCleaned(t *testing.T) {
	t.Parallel()
	inner := errors.New("a\x00b\xff" + strings.Repeat("é", defaults.MaxMessage))
	err := cleaned{inner}
	require.ErrorIs(t, err, inner)
	require.NotContains(t, err.Error(), "\x00")
	require.LessOrEqual(t, len(err.Error()), defaults.MaxMessage)
	require.True(t, strings.HasPrefix(err.Error(), "ab�é"))
}

// Finished jobs go by their age, each state by its own.
func TestFinishedJobsArePruned(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	ctx := context.Background()
	for state, kept := range map[string]time.Duration{"completed": defaults.JobsKept, "cancelled": defaults.JobsKept, "discarded": defaults.DiscardedKept} {
		for _, past := range []time.Duration{-time.Hour, time.Hour} {
			_, err := d.Pool.Exec(ctx, `INSERT INTO berth.river_job (kind, args, max_attempts, queue, state, finalized_at, tags)
				VALUES ('provision_resource', '{}', 25, 'none', $1, now() - $2::interval, CASE WHEN $3 THEN '{old}' ELSE '{young}' END::text[])`, state, kept+past, past > 0)
			require.NoError(t, err)
		}
	}
	_, err := d.Pool.Exec(ctx, `INSERT INTO berth.river_job (kind, args, max_attempts, queue, created_at, tags)
		VALUES ('provision_resource', '{}', 25, 'none', now() - interval '10 years', '{young}')`)
	require.NoError(t, err)
	work(t, d, func(context.Context, uuid.UUID, string) error { return nil })
	eventually(t, d, 0, `SELECT count(*) FROM berth.river_job WHERE tags = '{old}'`)
	eventually(t, d, 4, `SELECT count(*) FROM berth.river_job WHERE tags = '{young}'`)
}

// However many jobs nobody waits for hang, they have few slots, and none of those of the others.
func TestBackgroundHasSlotsOfItsOwn(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	begun, driven := make(chan struct{}, 100), make(chan uuid.UUID, 1)
	work(t, d, func(ctx context.Context, id uuid.UUID, provisioner string) error {
		if provisioner == "a" {
			driven <- id
			return nil
		}
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	for range 100 {
		insert(t, d, Wake{Kind: Provision, ResourceID: uuid.New(), Provisioner: "a", Background: true})
	}
	for range 10 / defaults.BackgroundShare {
		<-begun
	}
	for range 20 {
		id := uuid.New()
		insert(t, d, Wake{Kind: Provision, ResourceID: id, Provisioner: "a"})
		require.Equal(t, id, <-driven)
	}
	require.Empty(t, begun)
	eventually(t, d, 100-10/defaults.BackgroundShare, `SELECT count(*) FROM berth.river_job WHERE state = 'available'`)
}

func TestBackgroundWorkers(t *testing.T) {
	t.Parallel()
	for all, want := range map[int]int{1: 1, 3: 1, 4: 1, 8: 2, 100: 25, 10000: 2500} {
		require.Equal(t, want, backgroundWorkers(all), "%d", all)
	}
}
