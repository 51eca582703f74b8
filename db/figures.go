package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Figures are what is counted of a whole fleet. Names are those of provisioners and queues, so there are few of them.
type Figures struct {
	QueueAge  map[string]time.Duration // of the oldest job that waits, by queue; 0 where none does
	Unsettled map[string]Unsettled     // by provisioner
	Waiting   map[string]Waiting       // for room, by provisioner
	Slots     map[string]Slots         // by provisioner
}

// Unsettled are the places of a provisioner that are not as they were wished.
type Unsettled struct {
	Places int64
	Age    time.Duration // of the oldest
}

// Waiting is what waits for room in a pool.
type Waiting struct{ Places, Slots int64 }

// Slots are those of a pool. What is free on a host that takes no new resources is closed.
type Slots struct{ Used, Free, Closed int64 }

// The statements of Measure. Each reads what an index finds, nothing of what is settled and looked at no more, and no more rows than it
// is told, but for the hosts of the pools, which are few. A gauge that is absent says nothing, so every known provisioner has its zeros.
const (
	queueAges = `
SELECT q.name, coalesce(min(j.scheduled_at), statement_timestamp()), statement_timestamp()
FROM (SELECT 'shared'::text AS name UNION SELECT 'provisioner-' || v.name FROM berth.provisioners v UNION SELECT r.name FROM berth.river_queue r) q
LEFT JOIN LATERAL (
    SELECT x.scheduled_at FROM (VALUES (1::smallint), (2::smallint), (3::smallint), (4::smallint)) p(priority)
    CROSS JOIN LATERAL (SELECT i.scheduled_at FROM berth.river_job i
        WHERE i.state = 'available' AND i.queue = q.name AND i.priority = p.priority ORDER BY i.scheduled_at LIMIT 1) x) j ON true
GROUP BY q.name ORDER BY q.name`

	// What is unsettled is looked at again, soonest first, or was given up, and then its deployment is errored. Since when: since it
	// began to fail, or was asked for, as its deadline says; else since its deployment last changed.
	unsettled = `
SELECT v.name, coalesce(u.places, 0), coalesce(least(u.failing, u.deadline - v.timeout, u.rest), statement_timestamp()), statement_timestamp()
FROM berth.provisioners v LEFT JOIN (
    SELECT p.provisioner, count(*) AS places, min(p.failing_since) AS failing, min(p.deadline_at) AS deadline,
        min(CASE WHEN p.failing_since IS NULL AND p.deadline_at IS NULL
            THEN coalesce((SELECT d.updated_at FROM berth.deployments d WHERE d.id = p.deployment_id), p.updated_at) END) AS rest
    FROM ((SELECT a.* FROM berth.provisioner_resources a WHERE a.retry_at IS NOT NULL ORDER BY a.retry_at LIMIT $1)
          UNION ALL
          (SELECT b.* FROM (SELECT x.id FROM berth.deployments x WHERE x.state = 'errored' ORDER BY x.id LIMIT $1) e
           JOIN berth.provisioner_resources b ON b.deployment_id = e.id WHERE b.retry_at IS NULL)) p
    WHERE p.observed_generation < p.intent_generation OR p.phase <> p.desired_phase
    GROUP BY p.provisioner) u ON u.provisioner = v.name
ORDER BY v.name`

	waiting = `
SELECT v.name, count(s.wanted), coalesce(sum(s.wanted - s.slots), 0)
FROM berth.provisioners v LEFT JOIN LATERAL (
    SELECT x.wanted, x.slots FROM berth.static_slots x WHERE x.provisioner = v.name AND x.ticket IS NOT NULL ORDER BY x.ticket LIMIT $1) s ON true
WHERE EXISTS (SELECT FROM berth.static_runtimes o WHERE o.provisioner = v.name)
GROUP BY v.name ORDER BY v.name`

	slots = `
SELECT o.provisioner, coalesce(sum(o.used), 0),
    coalesce(sum(greatest(o.slots - o.used, 0)) FILTER (WHERE o.removed_at IS NULL AND o.cordoned_at IS NULL AND o.unhealthy_since IS NULL), 0),
    coalesce(sum(greatest(o.slots - o.used, 0)) FILTER (WHERE o.removed_at IS NULL AND (o.cordoned_at IS NOT NULL OR o.unhealthy_since IS NOT NULL)), 0)
FROM berth.static_runtimes o GROUP BY o.provisioner ORDER BY o.provisioner`
)

// Measure reads the figures on one connection, and writes nothing. The server gives up on each statement after the time given, so a
// caller who went away leaves nothing running. No more than most places are read of any kind: where there are more, there is more to
// worry about than how many.
func Measure(ctx context.Context, pool *pgxpool.Pool, timeout time.Duration, most int) (f Figures, err error) {
	f = Figures{QueueAge: map[string]time.Duration{}, Unsettled: map[string]Unsettled{}, Waiting: map[string]Waiting{}, Slots: map[string]Slots{}}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('statement_timeout', $1, true)", milliseconds(timeout)); err != nil {
			return err
		}
		var (
			name       string
			since, now time.Time
			a, b, c    int64
		)
		for _, s := range []struct {
			sql  string
			args []any
			into []any
			keep func()
		}{
			{queueAges, nil, []any{&name, &since, &now}, func() { f.QueueAge[name] = age(since, now) }},
			{unsettled, []any{most}, []any{&name, &a, &since, &now}, func() { f.Unsettled[name] = Unsettled{a, age(since, now)} }},
			{waiting, []any{most}, []any{&name, &a, &b}, func() { f.Waiting[name] = Waiting{a, b} }},
			{slots, nil, []any{&name, &a, &b, &c}, func() { f.Slots[name] = Slots{a, b, c} }},
		} {
			rows, err := tx.Query(ctx, s.sql, s.args...)
			if err != nil {
				return err
			}
			if _, err := pgx.ForEachRow(rows, s.into, func() error { s.keep(); return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Figures{}, fmt.Errorf("measure the fleet: %w", err)
	}
	return f, nil
}

func age(since, now time.Time) time.Duration { return max(now.Sub(since), 0) }
