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
	// What a client inserts so soon after its last notification is told to nobody, and waits for the poll: a second, if no other
	// job comes. So it is as short as River lets it be.
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{
		Schema: Schema, FetchCooldown: defaults.NotifyCooldown, FetchPollInterval: defaults.FetchPoll, Logger: logger,
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
