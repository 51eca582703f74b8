package trials

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/lifecycle"
)

// usedAgain is how long a runtime that answers again may wait for its resources.
const usedAgain = 15 * time.Second

// A runtime that does not serve holds up nobody but its own, for whom it is said why; and it is used again when it does.
func TestRuntimesThatDoNotServe(t *testing.T) {
	t.Parallel()
	bad := map[string]struct {
		worse, better func(*host)
		says          string
	}{
		"hangs":        {func(h *host) { h.answers(hanging) }, func(h *host) { h.answers(after(0)) }, "no answer within 3s"},
		"answers-500":  {func(h *host) { h.answers(with(http.StatusInternalServerError)) }, func(h *host) { h.answers(after(0)) }, "answered 500"},
		"answers-404":  {func(h *host) { h.answers(http.NotFound) }, func(h *host) { h.answers(after(0)) }, "answered 404"},
		"refuses":      {(*host).down, (*host).up, "refused"},
		"breaks-after": {func(h *host) { h.answers(cut) }, func(h *host) { h.answers(after(0)) }, "EOF"},
	}
	hosts := map[string]*host{"serves": newHost(t)}
	backends := map[string]backend{"serves": pool(t, "spread", 100, hosts["serves"])}
	for name := range bad {
		hosts[name] = newHost(t)
		backends[name] = pool(t, "spread", 20, hosts[name])
	}
	f := begin(t, dbtest.New(t), backends)
	end := f.guard()
	f.start()
	f.start()
	const deadline = 5 * time.Second
	f.exec(`UPDATE berth.provisioners SET timeout = $1`, deadline)
	worse := func() {
		for name, b := range bad {
			b.worse(hosts[name])
		}
	}
	better := func() {
		for name, b := range bad {
			b.better(hosts[name])
		}
	}

	// From the start: what is there for long is closed, and what never was ready there waits for another host.
	worse()
	at := map[string][]uuid.UUID{}
	for name := range bad {
		at[name] = f.create(name, 10)
	}
	at["serves"] = f.create("serves", 50)
	f.none(`SELECT count(*) FROM berth.deployments WHERE id = ANY($1) AND state <> 'running'`, at["serves"])
	for name := range bad {
		closed := func() bool {
			return f.count(`SELECT count(*) FROM berth.provisioner_resources WHERE provisioner = $1 AND reason <> 'NoCapacity'`, name) == 0
		}
		f.until(closed, f.picture)
		for _, id := range at[name] {
			d, err := f.admin.Get(t.Context(), f.Pool, id)
			require.NoError(t, err)
			require.Equal(t, lifecycle.Pending, d.State)
			require.Contains(t, d.Message, hosts[name].url()+": unhealthy since")
		}
	}
	better()
	began := time.Now()
	f.running()
	t.Logf("used again after %v", time.Since(began))
	require.Less(t, time.Since(began), usedAgain)
	f.check()

	// After they ran there: they stay, and an error comes in time.
	worse()
	for _, ids := range at {
		f.change((*lifecycle.Client).Restart, ids...)
	}
	f.none(`SELECT count(*) FROM berth.deployments WHERE id = ANY($1) AND state <> 'running'`, at["serves"])
	for name, b := range bad {
		f.none(`SELECT count(*) FROM berth.deployments WHERE id = ANY($1) AND state <> 'errored'`, at[name])
		f.none(`SELECT count(*) FROM berth.provisioner_resources WHERE provisioner = $1 AND NOT (reason = 'PingFailed' AND message LIKE $2 AND retry_at IS NOT NULL)`,
			name, "%"+hosts[name].url()+": %"+b.says+"%")
		require.Equal(t, 10, f.count(`SELECT sum(used)::int FROM berth.static_runtimes WHERE provisioner = $1`, name))
	}
	better()
	f.running()
	f.check()
	for name, h := range hosts {
		// One at a time by each of the two workers; a host may notice late that somebody stopped waiting, and asks anew.
		require.LessOrEqual(t, h.most.Load(), int32(4), name)
	}
	f.clean()
	end()
}

// cut breaks the connection instead of answering.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
