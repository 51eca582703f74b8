package lifecycle_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"berth/lifecycle"
)

// TestStricterIsolation makes calls side by side in transactions that see the world as it was when they began. What an admin meets
// is typed: a refusal, or that it has to run again.
func TestStricterIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.wide(t, 4)
			ids := newIDs(5)
			calls := []call{
				func(ctx context.Context, tx pgx.Tx) error { return b.client.Create(ctx, tx, b.news(ids)...) },
				func(ctx context.Context, tx pgx.Tx) error { return b.client.AddResource(ctx, tx, database(""), ids...) },
				func(ctx context.Context, tx pgx.Tx) error { return b.client.Stop(ctx, tx, ids...) },
				func(ctx context.Context, tx pgx.Tx) error { return b.client.Restart(ctx, tx, ids...) },
				func(ctx context.Context, tx pgx.Tx) error {
					return b.client.Update(ctx, tx, lifecycle.Change{Annotations: map[string]string{"k": uuid.NewString()}}, ids...)
				},
			}
			var all sync.WaitGroup
			errs := make(chan error, len(calls))
			for _, f := range calls {
				all.Go(func() {
					for range 5 {
						if err := b.strict(t.Context(), level, f); err != nil && !errors.Is(err, lifecycle.ErrNotFound) {
							errs <- err
							return
						}
					}
				})
			}
			all.Wait()
			close(errs)
			for err := range errs {
				require.NoError(t, err)
			}
			require.NoError(t, b.strict(t.Context(), level, calls[1]))
			b.whole(t, ids, len(ids))
		})
	}
}

// TestAddWithAnOldSnapshot adds what another transaction has added since this one began, which it can not see.
func TestAddWithAnOldSnapshot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := newIDs(1)
	b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Create(ctx, tx, b.news(ids)...) })
	add := func(ctx context.Context, tx pgx.Tx) error { return b.client.AddResource(ctx, tx, database(""), ids...) }
	err := pgx.BeginTxFunc(t.Context(), b.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			return err
		}
		b.do(t, add)
		return add(t.Context(), tx)
	})
	require.ErrorIs(t, err, lifecycle.ErrRetry)
	require.NoError(t, b.strict(t.Context(), pgx.RepeatableRead, add), "run again, it is there")
	b.whole(t, ids, 1)
}

// strict runs a call in a stricter transaction until it need not give way. Serializable ones may be told so at their commit.
func (b *bundle) strict(ctx context.Context, level pgx.TxIsoLevel, f call) (err error) {
	for range 1000 {
		err = pgx.BeginTxFunc(ctx, b.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error { return f(ctx, tx) })
		var pg *pgconn.PgError
		if errors.Is(err, lifecycle.ErrRetry) || errors.As(err, &pg) && pg.Code == "40001" {
			continue
		}
		return err
	}
	return err
}
