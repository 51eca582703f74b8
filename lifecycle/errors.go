package lifecycle

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Kinds of refusals, matched with errors.Is. Nothing was changed.
var (
	// ErrNotFound: what was named does not exist.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request can never be met as it stands.
	ErrInvalid = errors.New("invalid")
	// ErrConflict: the request does not fit the present state.
	ErrConflict = errors.New("conflict")
	// ErrRetry: the database chose this transaction to give way to another. Roll it back and run it again.
	ErrRetry = errors.New("retry the transaction")
)

// An Error is a refusal: of what, why, and what to do about it.
type Error struct {
	Kind   error  // one of the kinds above
	What   string // such as `deployment 3f…`
	Why    string
	Remedy string
}

// Error returns what, why and the remedy in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.What, e.Why, e.Remedy)
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

func refuse(kind error, what, why, remedy string) error {
	return &Error{Kind: kind, What: what, Why: why, Remedy: remedy}
}

// stored wraps what the database said of a step.
func stored(err error, step string) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "40P01", "40001", "55P03", // deadlock, serialization failure, lock timeout
			"23505", // a key that is taken: we look before we insert, so a snapshot older than another's commit hid it
			"23503": // what is deleted is referred to, or what is referred to was deleted: the same
			return fmt.Errorf("%s: %w: %w", step, ErrRetry, err)
		}
	}
	return fmt.Errorf("%s: %w", step, err)
}
