package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"berth/internal/defaults"
)

// ClockError says that the clock of this machine and that of the database are too far apart for a worker.
type ClockError struct {
	Off time.Duration // above zero: this machine's is ahead
}

// Error returns the text.
func (e *ClockError) Error() string {
	which := "ahead of"
	if e.Off < 0 {
		which = "behind"
	}
	return fmt.Sprintf("the clock of this machine is %v %s the database's, and %v is the most that will do: synchronise both, with NTP for instance",
		e.Off.Abs().Round(time.Millisecond), which, defaults.ClockSkew)
}

// RequireClock returns a *ClockError if now and the database's clock differ by more than defaults.ClockSkew. The time that the
// question takes counts for neither. It may be repeated.
func RequireClock(ctx context.Context, pool *pgxpool.Pool, now func() time.Time) error {
	var theirs time.Time
	asked := now()
	if err := pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&theirs); err != nil {
		return fmt.Errorf("ask the database for the time: %w", err)
	}
	answered := now()
	if ahead := asked.Sub(theirs); ahead > defaults.ClockSkew {
		return &ClockError{ahead}
	}
	if ahead := answered.Sub(theirs); ahead < -defaults.ClockSkew {
		return &ClockError{ahead}
	}
	return nil
}
