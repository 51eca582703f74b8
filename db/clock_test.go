package db_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/db"
	"berth/db/dbtest"
	"berth/internal/defaults"
)

func TestRequireClock(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	for name, c := range map[string]struct {
		reason string
		off    time.Duration // of this machine's clock
		slow   time.Duration // that the question seems to take
		want   string
	}{
		"right":  {"both clocks are the same", 0, 0, ""},
		"ahead":  {"leases and retries are the database's times", time.Hour, 0, "ahead of the database's, and 2s is the most"},
		"behind": {"either way", -time.Hour, 0, "behind the database's, and 2s is the most"},
		"little": {"some difference there always is", defaults.ClockSkew / 2, 0, ""},
		"slow":   {"a slow answer says nothing about a clock", 0, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := false
			err := db.RequireClock(t.Context(), d.Pool, func() time.Time {
				now := time.Now().Add(c.off)
				if asked {
					now = now.Add(c.slow)
				}
				asked = true
				return now
			})
			if c.want == "" {
				require.NoError(t, err, c.reason)
				return
			}
			var wrong *db.ClockError
			require.ErrorAs(t, err, &wrong, c.reason)
			require.InDelta(t, c.off, wrong.Off, float64(time.Minute))
			require.ErrorContains(t, err, c.want)
		})
	}
}
