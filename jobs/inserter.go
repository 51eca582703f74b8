package jobs

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"berth/internal/defaults"
)

// An Inserter puts jobs into the queue, in the caller's transaction. It needs no connection of its own and is safe for
// concurrent use.
type Inserter struct{ river *river.Client[pgx.Tx] }

// NewInserter makes an Inserter for the schema named.
func NewInserter(logger *slog.Logger) (*Inserter, error) {
	// The inserter's cooldown bounds how soon a worker is told, so it is as short as the worker's own.
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{
		Schema: Schema, FetchCooldown: defaults.FetchCooldown, FetchPollInterval: defaults.FetchPoll, Logger: logger,
		Middleware: []rivertype.Middleware{newTracing(callers{})},
	})
	if err != nil {
		return nil, fmt.Errorf("make a client of the queue: %w", err)
	}
	return &Inserter{client}, nil
}

// Wake inserts one job for each wake. All or nothing, with the rest of the transaction. Two jobs for one place do no harm.
func (i *Inserter) Wake(ctx context.Context, tx pgx.Tx, wakes []Wake) error {
	if len(wakes) == 0 {
		return nil
	}
	params := make([]river.InsertManyParams, len(wakes))
	for n, w := range wakes {
		params[n] = w.params()
	}
	if _, err := i.river.InsertManyTx(ctx, tx, params); err != nil {
		return fmt.Errorf("insert %d jobs: %w", len(wakes), err)
	}
	return nil
}
