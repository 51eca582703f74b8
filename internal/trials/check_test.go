package trials

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"berth/lifecycle"
)

// A rule is a count that is zero.
type rule struct{ broken, count string }

// always holds at any instant, whatever is under way.
var always = []rule{
	{"made twice", `SELECT count(*) FROM (SELECT FROM trial.objects GROUP BY id, provisioner HAVING count(*) > 1) x`},
	{"something is there that is not listed", `SELECT count(*) FROM trial.objects o WHERE NOT EXISTS
		(SELECT FROM berth.provisioner_resources p WHERE p.id = o.id AND p.provisioner = o.provisioner)`},
	{"a host is over its slots", `SELECT count(*) FROM berth.static_runtimes WHERE used > slots`},
	{"used is not the sum of what is held", `SELECT count(*) FROM berth.static_runtimes r WHERE r.used <>
		(SELECT coalesce(sum(s.slots), 0) FROM berth.static_slots s WHERE s.provisioner = r.provisioner AND s.host = r.host)`},
	{"running without a ready place", `SELECT count(*) FROM berth.deployments d WHERE d.state = 'running' AND NOT EXISTS
		(SELECT FROM berth.provisioner_resources p WHERE p.deployment_id = d.id AND p.phase = 'ready' AND p.desired_phase = 'ready')`},
}

// settled holds when nothing is under way.
var settled = []rule{
	{"not as wished", `SELECT count(*) FROM berth.deployments WHERE state <> desired_state`},
	{"a lease is left", `SELECT count(*) FROM berth.provisioner_resources WHERE fence IS NOT NULL OR leased_by IS NOT NULL OR leased_until IS NOT NULL`},
	{"unsettled, and nobody will look", `SELECT count(*) FROM berth.provisioner_resources
		WHERE retry_at IS NULL AND (observed_generation < intent_generation OR phase <> desired_phase OR claimed_generation < generation)`},
	{"not there as the row says", `SELECT count(*) FROM berth.provisioner_resources p JOIN berth.provisioners v ON v.name = p.provisioner
		LEFT JOIN trial.objects o ON o.id = p.id AND o.provisioner = p.provisioner
		WHERE v.type = 'world' AND p.phase IN ('ready', 'hibernated') AND coalesce(o.phase, CASE p.phase WHEN 'ready' THEN '' ELSE 'hibernated' END) <> p.phase`},
	{"ready without the slots that it asked for, on the host that clients are told", `SELECT count(*) FROM berth.provisioner_resources p
		JOIN berth.provisioners v ON v.name = p.provisioner
		WHERE v.type = 'static' AND p.phase = 'ready' AND NOT EXISTS
		(SELECT FROM berth.static_slots s JOIN berth.static_runtimes r ON r.provisioner = s.provisioner AND r.host = s.host
		 WHERE s.resource_id = p.id AND s.provisioner = p.provisioner AND s.slots = (p.args ->> 'slots')::int AND s.ticket IS NULL
		   AND r.url = p.config ->> 'host')`},
	{"taken for a killer of workers", `SELECT count(*) FROM berth.provisioner_resources WHERE reason = 'WorkerLost'`},
}

// gone holds when every deployment was deleted.
var gone = []rule{
	{"a deployment", `SELECT count(*) FROM berth.deployments`},
	{"a place", `SELECT count(*) FROM berth.provisioner_resources`},
	{"an object outside", `SELECT count(*) FROM trial.objects`},
	{"a slot, or somebody who waits for one", `SELECT count(*) FROM berth.static_slots`},
	{"a slot counted as used", `SELECT coalesce(sum(used), 0)::int FROM berth.static_runtimes`},
	{"an unfinished job", `SELECT count(*) FROM berth.river_job WHERE finalized_at IS NULL`},
}

// broken says which rules do not hold, all seen at one instant.
func (f *fleet) broken(rules []rule) string {
	selects := make([]string, len(rules))
	for i, r := range rules {
		selects[i] = fmt.Sprintf("SELECT %d AS i, (%s) AS n", i, r.count)
	}
	rows, err := f.Pool.Query(context.Background(), "SELECT i, n FROM ("+strings.Join(selects, " UNION ALL ")+") x WHERE n > 0 ORDER BY i")
	if err != nil {
		return err.Error()
	}
	var (
		all  []string
		i, n int
	)
	_, err = pgx.ForEachRow(rows, []any{&i, &n}, func() error {
		all = append(all, fmt.Sprintf("%s: %d", rules[i].broken, n))
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return strings.Join(all, "; ")
}

// guard looks again and again whether what holds always holds, and what else is given, and fails the test at the end if it once
// did not. The function that it returns ends it.
func (f *fleet) guard(more ...rule) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	seen := ""
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for seen == "" {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				seen = f.broken(append(more, always...))
			}
		}
	})
	end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		if seen != "" {
			f.t.Errorf("at one instant: %s", seen)
		}
	})
	f.t.Cleanup(end)
	return end
}

// check waits until everything is as it has to be when nothing is under way: what was woken once more for nothing may still be.
func (f *fleet) check() {
	f.t.Helper()
	rules := append(append([]rule{}, always...), settled...)
	f.until(func() bool { return f.broken(rules) == "" }, func() string { return f.broken(rules) })
}

// clean deletes every deployment and waits until nothing of any is left.
func (f *fleet) clean() {
	f.t.Helper()
	if ids := f.deployments(); len(ids) > 0 {
		f.change((*lifecycle.Client).Delete, ids...)
	}
	f.nothing()
}

// nothing waits until nothing of any deployment is left.
func (f *fleet) nothing() {
	f.t.Helper()
	f.until(func() bool { return f.broken(gone) == "" }, func() string { return "left over: " + f.broken(gone) })
	f.check()
}
