package dbstatic

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/provisioner/static"
)

// An Explanation says where a newcomer that asks for slots would go now, and how each host stands to that.
type Explanation struct {
	Listed   int // most slots of a listed host: who asks for more never fits
	Waiting  int // those who wait, and are served first
	Verdicts []Verdict
	host     map[bool]string
}

// Host is the key of the host that a strategy gives the newcomer; empty if it would wait.
func (e Explanation) Host(pack bool) string { return e.host[pack] }

// A Verdict is how one host stands to a newcomer.
type Verdict struct {
	static.Runtime
	Fits    bool
	Why     string
	KeptFor uuid.UUID // who came first, could use the host, and waits; uuid.Nil for none
}

// waiter is one who waits, in order of arrival.
type waiter struct {
	id        uuid.UUID
	host      string // where it wants to grow; empty: it has no place yet
	has, want int
}

// Explain says where a newcomer with so many slots would go if it came now. It changes nothing and waits for nobody. Its rules are those
// of berth.static_assign.
func (s *Store) Explain(ctx context.Context, pool string, n int) (e Explanation, err error) {
	var queue []waiter
	var hosts []static.Runtime
	o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly} // both as of one moment
	err = pgx.BeginTxFunc(ctx, s.pool, o, func(tx pgx.Tx) error {
		all, err := runtimes(ctx, tx, []string{pool})
		if err != nil {
			return err
		}
		hosts = all[pool]
		rows, err := tx.Query(ctx, `SELECT s.resource_id, coalesce(s.host, ''), s.slots, s.wanted FROM berth.static_slots s
			WHERE s.provisioner = $1 AND s.ticket IS NOT NULL ORDER BY s.ticket`, pool)
		if err != nil {
			return err
		}
		queue, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (w waiter, err error) {
			return w, row.Scan(&w.id, &w.host, &w.has, &w.want)
		})
		return err
	})
	if err != nil {
		return e, fmt.Errorf("explain %d slots in %s: %w", n, pool, err)
	}
	e.Waiting, e.host = len(queue), map[bool]string{}
	for _, h := range hosts {
		if !h.Removed {
			e.Listed = max(e.Listed, h.Slots)
		}
	}
	for _, pack := range []bool{true, false} {
		p := plan{pack: pack, hosts: make([]planned, len(hosts))}
		for i, h := range hosts {
			p.hosts[i] = planned{Runtime: h, free: h.Slots - h.Used}
		}
		for _, w := range queue {
			p.serve(w)
		}
		if best := p.choose(n); best != nil && n <= e.Listed {
			e.host[pack] = best.Key
		}
		e.Verdicts = p.verdicts(n)
	}
	return e, nil
}

// plan is a pool in which those who wait are served.
type plan struct {
	pack  bool
	hosts []planned // by their keys
}

// planned is a host, and for whom it is kept: who is not served keeps what it could ever use from those behind it.
type planned struct {
	static.Runtime
	free int
	kept *waiter
}

// serve gives one who waits its slots, or keeps hosts for it.
func (p *plan) serve(w waiter) {
	if w.host == "" {
		if best := p.choose(w.want); best != nil {
			best.free -= w.want
			return
		}
	}
	for i := range p.hosts {
		h := &p.hosts[i]
		switch {
		case h.Closed() != "" || h.Slots < w.want || w.host != "" && w.host != h.Key || h.kept != nil:
		case w.host != "" && h.free >= w.want-w.has:
			h.free -= w.want - w.has
		default:
			h.kept = &w
		}
	}
}

// choose returns the host for a first place of so many slots; nil if there is none.
func (p *plan) choose(n int) (best *planned) {
	for i := range p.hosts {
		h := &p.hosts[i]
		if h.Closed() != "" || h.kept != nil || h.free < n {
			continue
		}
		if best == nil || p.pack && h.free < best.free || !p.pack && (h.Slots-h.free)*best.Slots < (best.Slots-best.free)*h.Slots {
			best = h
		}
	}
	return best
}

func (p *plan) verdicts(n int) []Verdict {
	out := make([]Verdict, len(p.hosts))
	for i, h := range p.hosts {
		v := Verdict{Runtime: h.Runtime, Why: h.Closed()}
		room := fmt.Sprintf("%d of %d free", max(h.free, 0), h.Slots)
		switch {
		case v.Why != "":
		case h.Slots < n:
			v.Why = fmt.Sprintf("too small: it has %d in all", h.Slots)
		case h.kept != nil:
			v.Why, v.KeptFor = fmt.Sprintf("%s, kept for one that came first and waits for %d", room, h.kept.want), h.kept.id
		case h.free < n:
			v.Why = room
		default:
			v.Fits, v.Why = true, room
		}
		out[i] = v
	}
	return out
}
