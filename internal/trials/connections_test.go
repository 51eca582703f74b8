package trials

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/internal/defaults"
)

// Four workers with a hundred jobs at once each, and an admin, have enough of the hundred connections that a server gives by
// default.
func TestHundredConnections(t *testing.T) {
	t.Parallel()
	d := dbtest.Private(t, dbtest.PrivateOptions{Settings: map[string]string{"max_connections": "100", "superuser_reserved_connections": "3"}})
	f := begin(t, d, both(t, 250, 0))
	f.order.MaxWorkers = defaults.MaxWorkers
	end := f.guard()
	for range 4 {
		f.start()
	}
	f.createAll(250)
	most := 0
	f.until(func() bool {
		most = max(most, f.count(`SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'`))
		return f.count(`SELECT count(*) FROM berth.deployments WHERE state <> 'running'`) == 0
	}, f.picture)
	f.check()
	f.clean()
	end()
	text, err := os.ReadFile(d.Server.LogPath())
	require.NoError(t, err)
	for _, refusal := range []string{"too many clients", "remaining connection slots"} {
		require.Zero(t, strings.Count(string(text), refusal), "%s", text)
	}
	t.Logf("%d connections at most", most)
	require.LessOrEqual(t, most, 97)
}
