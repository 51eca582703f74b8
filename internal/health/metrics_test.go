package health

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"berth/db/dbtest"
	"berth/jobs"
)

// fill makes a small fleet: what runs, what is on its way, what waits, what was given up, what is owed.
func fill(b *testBundle) {
	b.t.Helper()
	b.exec(`INSERT INTO berth.provisioners (name, type, supports, timeout) VALUES ('a', 'static', '{runtime}', '5 minutes'), ('b', 'static', '{runtime}', '5 minutes'), ('c', 'other', '{runtime}', '5 minutes')`)
	b.exec(`INSERT INTO berth.organizations (name) VALUES ('acme')`)
	b.exec(`INSERT INTO berth.projects (organization_id, name) SELECT id, 'web' FROM berth.organizations`)
	b.exec(`INSERT INTO berth.deployments (id, project_id, desired_state, state, updated_at)
		SELECT gen_random_uuid(), p.id, 'running', s.state, now() - s.age FROM berth.projects p,
			(VALUES ('running', interval '9 hours'), ('running', '9 hours'), ('pending', '40 seconds'), ('pending', '30 seconds'), ('errored', '3 hours')) s(state, age)`)
	// What runs is settled, even while something wakes it.
	b.exec(`INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, desired_phase, args, phase, generation, claimed_generation, observed_generation, retry_at)
		SELECT gen_random_uuid(), 'a', id, 'runtime', 'ready', '{}', 'ready', 2, 1, 1, now() FROM berth.deployments WHERE state = 'running'`)
	// One is on its way, the other waits for room.
	b.exec(`INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, desired_phase, args, phase, reason, retry_at, deadline_at)
		SELECT gen_random_uuid(), CASE WHEN updated_at < now() - interval '35 seconds' THEN 'a' ELSE 'b' END, id, 'runtime', 'ready', '{}', 'pending', '', now() + interval '1 second',
			now() + interval '5 minutes' - interval '100 seconds' FROM berth.deployments WHERE state = 'pending'`)
	b.exec(`UPDATE berth.provisioner_resources SET reason = 'NoCapacity', deadline_at = NULL WHERE provisioner = 'b'`)
	// What was given up is looked at no more.
	b.exec(`INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, desired_phase, args, phase, given_up_at, failures, failing_since)
		SELECT gen_random_uuid(), 'c', id, 'runtime', 'ready', '{}', 'unknown', now(), 2, now() - interval '4 hours' FROM berth.deployments WHERE state = 'errored'`)
	// A debt belongs to no deployment.
	b.exec(`INSERT INTO berth.provisioner_resources (id, provisioner, type, desired_phase, args, phase, retry_at, failures, failing_since)
		VALUES (gen_random_uuid(), 'c', 'runtime', 'absent', '{}', 'ready', now(), 1, now() - interval '5 hours')`)
	b.exec(`INSERT INTO berth.static_runtimes (provisioner, host, url, audience, data_dir, slots, cordoned_at, unhealthy_since, removed_at) VALUES
		('a', 'h1', 'u', 'u', '', 10, NULL, NULL, NULL), ('a', 'h2', 'u', 'u', '', 7, now(), NULL, NULL), ('a', 'h3', 'u', 'u', '', 5, NULL, now(), NULL), ('a', 'h4', 'u', 'u', '', 9, NULL, NULL, now()),
		('b', 'h1', 'u', 'u', '', 4, NULL, NULL, NULL)`)
	b.exec(`INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted)
		SELECT id, 'a', CASE row_number() OVER () WHEN 1 THEN 'h1' ELSE 'h2' END, 2, 2 FROM berth.provisioner_resources WHERE provisioner = 'a' AND phase = 'ready'`)
	b.exec(`INSERT INTO berth.static_slots (resource_id, provisioner, slots, wanted, ticket) SELECT id, 'b', 0, 6, 1 FROM berth.provisioner_resources WHERE provisioner = 'b'`)
	b.exec(`INSERT INTO berth.river_job (kind, args, queue, priority, max_attempts, state, scheduled_at, finalized_at) VALUES
		('provision_resource', '{}', 'provisioner-a', 1, 25, 'available', now() - interval '20 seconds', NULL),
		('provision_resource', '{}', 'provisioner-a', 2, 25, 'available', now() - interval '50 seconds', NULL),
		('provision_resource', '{}', 'provisioner-b', 1, 25, 'running', now() - interval '2 hours', NULL),
		('provision_resource', '{}', 'provisioner-b', 1, 25, 'completed', now() - interval '2 hours', now()),
		('provision_resource', '{}', 'provisioner-b', 1, 25, 'scheduled', now() + interval '2 hours', NULL),
		('another_kind', '{}', 'passes', 3, 25, 'available', now() - interval '70 seconds', NULL)`)
	b.exec(`INSERT INTO berth.river_queue (name, created_at, updated_at) VALUES ('passes', now(), now())`)
}

var ageForm = regexp.MustCompile(`(?m)^(berth_\w*age_seconds\{.*\}) (\S+)$`)

// The figures are those of the rows, by hand.
func TestFleet(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.New(t)).started()
	fill(b)
	b.Worked("provision_resource", jobs.Completed, 30*time.Millisecond)
	b.Worked("provision_resource", jobs.Failed, time.Minute)
	require.NoError(t, testutil.GatherAndCompare(b.metrics.registry, strings.NewReader(`
# HELP berth_breaker_open 1 where this worker leaves a provisioner alone because it does not answer, else 0.
# TYPE berth_breaker_open gauge
berth_breaker_open{provisioner="a"} 1
berth_breaker_open{provisioner="b"} 0
# HELP berth_jobs_total Jobs that this worker ran, by kind and outcome. A run that finds nothing to do is completed.
# TYPE berth_jobs_total counter
berth_jobs_total{kind="provision_resource",outcome="completed"} 1
berth_jobs_total{kind="provision_resource",outcome="failed"} 1
# HELP berth_leases_lost_total Leases that this worker lost before an outcome was stored.
# TYPE berth_leases_lost_total counter
berth_leases_lost_total 3
# HELP berth_scrape_error 1 if the database did not give its figures in time, else 0. What it knows is not shown then.
# TYPE berth_scrape_error gauge
berth_scrape_error 0
# HELP berth_slots Slots of a pool, by state: used, free, or closed: free on a host that takes no new resources.
# TYPE berth_slots gauge
berth_slots{provisioner="a",state="closed"} 10
berth_slots{provisioner="a",state="free"} 8
berth_slots{provisioner="a",state="used"} 4
berth_slots{provisioner="b",state="closed"} 0
berth_slots{provisioner="b",state="free"} 4
berth_slots{provisioner="b",state="used"} 0
# HELP berth_take_overs_total Places that this worker took over from one that was lost.
# TYPE berth_take_overs_total counter
berth_take_overs_total 5
# HELP berth_unsettled_places Places that are not as they were wished. Of those that are on their way, and of those that were given up, 10000 are looked at.
# TYPE berth_unsettled_places gauge
berth_unsettled_places{provisioner="a"} 1
berth_unsettled_places{provisioner="b"} 1
berth_unsettled_places{provisioner="c"} 2
# HELP berth_waiting_places Places that wait for room in a pool; 10000 are counted at most.
# TYPE berth_waiting_places gauge
berth_waiting_places{provisioner="a"} 0
berth_waiting_places{provisioner="b"} 1
# HELP berth_waiting_slots Slots that those lack.
# TYPE berth_waiting_slots gauge
berth_waiting_slots{provisioner="a"} 0
berth_waiting_slots{provisioner="b"} 6
`), "berth_breaker_open", "berth_jobs_total", "berth_leases_lost_total", "berth_scrape_error", "berth_slots", "berth_take_overs_total",
		"berth_unsettled_places", "berth_waiting_places", "berth_waiting_slots"))

	ages := map[string]time.Duration{}
	for _, m := range ageForm.FindAllStringSubmatch(b.get("/metrics"), -1) {
		seconds, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
		ages[m[1]] = time.Duration(seconds * float64(time.Second))
	}
	for name, least := range map[string]time.Duration{
		`berth_queue_age_seconds{queue="shared"}`:        0,
		`berth_queue_age_seconds{queue="provisioner-a"}`: 50 * time.Second,
		`berth_queue_age_seconds{queue="provisioner-b"}`: 0,
		`berth_queue_age_seconds{queue="provisioner-c"}`: 0,
		`berth_queue_age_seconds{queue="passes"}`:        70 * time.Second,
		`berth_unsettled_age_seconds{provisioner="a"}`:   100 * time.Second, // asked for then, as its deadline says
		`berth_unsettled_age_seconds{provisioner="b"}`:   30 * time.Second,
		`berth_unsettled_age_seconds{provisioner="c"}`:   5 * time.Hour,
	} {
		require.Contains(t, ages, name)
		if least == 0 {
			require.Zero(t, ages[name], name)
			continue
		}
		require.GreaterOrEqual(t, ages[name], least, name)
		require.Less(t, ages[name], least+patience, name)
	}
	require.Len(t, ages, 8)
}

// Names and units are what Prometheus' own linter wants, no label has an id, and docs/metrics.md has each with its labels.
func TestLint(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.New(t)).started()
	fill(b)
	b.Worked("provision_resource", jobs.Completed, time.Second)
	problems, err := testutil.GatherAndLint(b.metrics.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := b.metrics.registry.Gather()
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	described := map[string]string{} // by name, what the page says that its labels are
	for _, m := range regexp.MustCompile("(?m)^\\| `(berth_\\w+)` \\| (.*?) ?\\| ").FindAllStringSubmatch(string(page), -1) {
		described[m[1]] = m[2]
	}
	known := regexp.MustCompile(`\A(berth|go|process)_`)
	for _, f := range families {
		require.Regexp(t, known, f.GetName())
		if strings.HasPrefix(f.GetName(), "berth_") {
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, "`"+l.GetName()+"`")
			}
			said, is := described[f.GetName()]
			require.True(t, is, "docs/metrics.md does not have %s", f.GetName())
			require.ElementsMatch(t, labels, strings.FieldsFunc(said, func(r rune) bool { return r == ',' || r == ' ' }), "the labels of %s in docs/metrics.md", f.GetName())
			delete(described, f.GetName())
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				require.Error(t, uuid.Validate(l.GetValue()), "%s has an id", f.GetName())
			}
		}
	}
	require.Empty(t, described, "there is no such metric")
}
