package reconcile

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sessions of workers see what was committed while they waited, whatever the database's default is.
func TestWorkersAreReadCommitted(t *testing.T) {
	t.Parallel()
	f, _, backends := faked(t)
	var name string
	f.row(`SELECT current_database()`, nil, &name)
	f.exec(`ALTER DATABASE ` + name + ` SET default_transaction_isolation = 'serializable'`)
	log := &counting{}
	f.startWith(options{log: log.logger()}, backends)
	n := f.startWith(options{log: log.logger()}, backends)
	var level string
	require.NoError(t, n.pool.QueryRow(context.Background(), `SHOW transaction_isolation`).Scan(&level))
	require.Equal(t, "read committed", level)
	ids := f.create(50)
	f.allRunning()
	f.deleteAll(ids)
	require.Zero(t, log.count("outcome could not be stored"))
}
