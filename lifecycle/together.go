package lifecycle

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"berth/db/dbsqlc"
)

// A step is one statement, and what is made of its answer. It is run twice: to learn what it asks, and with the answer.
type step func(db dbsqlc.DBTX) error

// together runs steps that need nothing of each other's answers in one round trip, in their order, and returns the first error. A
// transaction of ours is short, so to wait for each answer would be most of it.
func together(ctx context.Context, tx pgx.Tx, steps ...step) error {
	if len(steps) == 0 {
		return nil
	}
	var asked questions
	for i, s := range steps {
		if err := s(&asked); asked.batch.Len() != i+1 {
			return errors.Join(err, errSteps)
		}
	}
	answers := tx.SendBatch(ctx, &asked.batch)
	for _, s := range steps {
		if err := s(given{answers}); err != nil {
			_ = answers.Close() // the rest fails for the same reason, or does not matter any more
			return err
		}
	}
	return stored(answers.Close(), "end a round trip")
}

// errSteps is the programmer's fault.
var errSteps = errors.New("each step is one statement")

// errAsked ends a step whose answer is still to come.
var errAsked = errors.New("asked")

// questions keeps statements, and answers none.
type questions struct{ batch pgx.Batch }

var _ dbsqlc.DBTX = (*questions)(nil)

func (q *questions) ask(sql string, args []any) error {
	q.batch.Queue(sql, args...)
	return errAsked
}

// Exec keeps a statement.
func (q *questions) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, q.ask(sql, args)
}

// Query keeps a statement.
func (q *questions) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	return nil, q.ask(sql, args)
}

// QueryRow keeps a statement.
func (q *questions) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	return unanswered{q.ask(sql, args)}
}

type unanswered struct{ err error }

// Scan has nothing to scan.
func (u unanswered) Scan(...any) error { return u.err }

// given answers statements in the order in which they were kept.
type given struct{ answers pgx.BatchResults }

var _ dbsqlc.DBTX = given{}

// Exec gives the next answer.
func (g given) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return g.answers.Exec() //nolint:wrapcheck // the step says what it did
}

// Query gives the next answer.
func (g given) Query(context.Context, string, ...any) (pgx.Rows, error) { return g.answers.Query() } //nolint:wrapcheck // the step says what it did

// QueryRow gives the next answer.
func (g given) QueryRow(context.Context, string, ...any) pgx.Row { return g.answers.QueryRow() }
