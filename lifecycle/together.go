package lifecycle

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"berth/db/dbsqlc"
)

// together collects statements that return nothing, and sends them in one round trip. A worker's transaction is short, so to wait
// for each answer is much of it.
type together struct{ batch pgx.Batch }

var _ dbsqlc.DBTX = (*together)(nil)

// errReturns is the programmer's fault: what returns rows has to be sent by itself.
var errReturns = errors.New("only statements that return nothing are sent together")

// Exec keeps a statement for send. What it did is not known.
func (t *together) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	t.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Query is refused.
func (t *together) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errReturns }

// QueryRow is refused.
func (t *together) QueryRow(context.Context, string, ...any) pgx.Row { return refusedRow{} }

type refusedRow struct{}

// Scan is refused.
func (refusedRow) Scan(...any) error { return errReturns }

// send sends what was collected, in its order, and returns the first error.
func (t *together) send(ctx context.Context, tx pgx.Tx) error {
	if t.batch.Len() == 0 {
		return nil
	}
	return stored(tx.SendBatch(ctx, &t.batch).Close(), "store states and events")
}
