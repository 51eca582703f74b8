package static_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	gocmp "github.com/google/go-cmp/cmp"

	"berth/db/dbstatic"
	"berth/internal/defaults"
	"berth/provisioner/static"
)

// model is what a pool does, written as plainly as it can be said.
type model struct {
	pack  bool
	hosts map[string]*modelHost
	rows  map[uuid.UUID]*modelRow
	next  int
}

type modelHost struct {
	slots, failed                int
	cordoned, unhealthy, removed bool
}

// modelRow is what a resource has: host and slots, and if it waits, a turn.
type modelRow struct {
	Host          string
	Slots, Wanted int
	Turn          int // 0 where rows are compared
}

func (h *modelHost) open() bool { return !h.cordoned && !h.unhealthy && !h.removed }

func (m *model) used(host string) (n int) {
	for _, r := range m.rows {
		if r.Host == host {
			n += r.Slots
		}
	}
	return n
}

func (m *model) largest() (n int) {
	for _, h := range m.hosts {
		if !h.removed {
			n = max(n, h.slots)
		}
	}
	return n
}

// assign serves those who wait in turn. Who is not served keeps the hosts that it could ever use.
func (m *model) assign() {
	var waiting []*modelRow
	for _, r := range m.rows {
		if r.Wanted > r.Slots {
			waiting = append(waiting, r)
		}
	}
	slices.SortFunc(waiting, func(a, b *modelRow) int { return a.Turn - b.Turn })
	kept := map[string]bool{}
	for _, r := range waiting {
		var could []string
		for name, h := range m.hosts {
			if h.open() && h.slots >= r.Wanted && (r.Host == "" || r.Host == name) {
				could = append(could, name)
			}
		}
		best, room := m.choose(could, kept, r.Wanted-r.Slots)
		if !room {
			for _, name := range could {
				kept[name] = true
			}
			continue
		}
		r.Host, r.Slots = best, r.Wanted
	}
}

func (m *model) choose(could []string, kept map[string]bool, n int) (best string, found bool) {
	could = slices.DeleteFunc(slices.Clone(could), func(name string) bool { return kept[name] || m.hosts[name].slots-m.used(name) < n })
	if len(could) == 0 {
		return "", false
	}
	return slices.MinFunc(could, func(a, b string) int {
		ha, hb, ua, ub := m.hosts[a], m.hosts[b], m.used(a), m.used(b)
		if m.pack {
			return cmp.Or(cmp.Compare(ha.slots-ua, hb.slots-ub), cmp.Compare(a, b))
		}
		return cmp.Or(cmp.Compare(ua*hb.slots, ub*ha.slots), cmp.Compare(a, b))
	}), true
}

// take returns whether the request can never be met.
func (m *model) take(id uuid.UUID, n int, readyOn string) (never bool) {
	r := m.rows[id]
	if r != nil && r.Host != "" && m.hosts[r.Host].unhealthy && r.Host != readyOn {
		delete(m.rows, id)
		r = nil
	}
	held := 0
	if r != nil {
		held = r.Slots
	}
	switch {
	case n > m.largest() && n > held:
		m.keep(id)
		never = true
	case r == nil:
		m.next++
		m.rows[id] = &modelRow{Wanted: n, Turn: m.next}
	case n <= r.Slots:
		r.Slots, r.Wanted = n, n
	default:
		if r.Wanted == r.Slots {
			m.next++
			r.Turn = m.next
		}
		r.Wanted = n
	}
	m.assign()
	return never
}

// keep ends the waiting of a resource.
func (m *model) keep(id uuid.UUID) {
	if r := m.rows[id]; r != nil && r.Host == "" {
		delete(m.rows, id)
	} else if r != nil {
		r.Wanted = r.Slots
	}
}

// actual reads what the database says: rows, and who waits in which order.
func (w *world) actual(t require.TestingT, pool string) (rows map[uuid.UUID]modelRow, order []uuid.UUID) {
	found, err := w.db.Pool.Query(context.Background(), `
		SELECT resource_id, coalesce(host, ''), slots, wanted, ticket IS NOT NULL FROM berth.static_slots WHERE provisioner = $1 ORDER BY ticket`, pool)
	require.NoError(t, err)
	rows = map[uuid.UUID]modelRow{}
	var id uuid.UUID
	var r modelRow
	var waits bool
	_, err = pgx.ForEachRow(found, []any{&id, &r.Host, &r.Slots, &r.Wanted, &waits}, func() error {
		rows[id] = r
		if waits {
			order = append(order, id)
		}
		return nil
	})
	require.NoError(t, err)
	return rows, order
}

func (m *model) expected() (rows map[uuid.UUID]modelRow, order []uuid.UUID) {
	rows = map[uuid.UUID]modelRow{}
	for id, r := range m.rows {
		rows[id] = modelRow{Host: r.Host, Slots: r.Slots, Wanted: r.Wanted}
		if r.Wanted > r.Slots {
			order = append(order, id)
		}
	}
	slices.SortFunc(order, func(a, b uuid.UUID) int { return m.rows[a].Turn - m.rows[b].Turn })
	return rows, order
}

// TestPoolDoesAsTheModel: whatever is done in whatever order, the database and the model agree on who has what and who is next.
func TestPoolDoesAsTheModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	names := []string{"http://a:80", "http://b:80", "http://c:80", "http://d:80"}
	trial := 0
	rapid.Check(t, func(t *rapid.T) {
		trial++
		pool := static.Pool{Name: fmt.Sprintf("pool-%d", trial), Pack: rapid.Bool().Draw(t, "pack")}
		m := &model{pack: pool.Pack, hosts: map[string]*modelHost{}, rows: map[uuid.UUID]*modelRow{}}
		_, err := w.db.Pool.Exec(ctx, `INSERT INTO berth.provisioners (name, type, supports, timeout) VALUES ($1, 'static', '{runtime}', '5 minutes')`, pool.Name)
		require.NoError(t, err)
		ids := make([]uuid.UUID, 8)
		for i := range ids {
			ids[i] = uuid.New()
		}
		id := rapid.SampledFrom(ids)
		host := rapid.SampledFrom(names)
		size := rapid.IntRange(1, 9)

		take := func(t *rapid.T, r uuid.UUID, n int, on string) {
			comes := m.rows[r] == nil
			foretold, err := w.store.Explain(ctx, pool.Name, n)
			require.NoError(t, err)
			never := m.take(r, n, on)
			p, err := w.store.Take(ctx, pool, static.Take{Resource: r, Fence: w.fence(pool.Name, r), Slots: n, ReadyOn: on})
			require.NoError(t, err)
			require.Equal(t, never, p.NeverFits)
			if comes { // it goes where it was said to go, and nowhere else could it have
				require.Equal(t, p.Key, foretold.Host(pool.Pack))
				require.Equal(t, p.NeverFits, n > foretold.Listed)
				require.Equal(t, foretold.Host(true) != "", slices.ContainsFunc(foretold.Verdicts, func(v dbstatic.Verdict) bool { return v.Fits }))
			}
			want := modelRow{}
			if row := m.rows[r]; row != nil {
				want = *row
			}
			require.Equal(t, modelRow{Host: want.Host, Slots: want.Slots, Wanted: want.Wanted}, modelRow{Host: p.Key, Slots: p.Slots, Wanted: p.Wanted})
		}
		declare := func(t *rapid.T) {
			var hosts []static.Host
			for _, name := range names {
				h := m.hosts[name]
				if !rapid.Bool().Draw(t, name) {
					if h != nil {
						h.removed = true
					}
					continue
				}
				n := size.Draw(t, "slots")
				if h == nil {
					h = &modelHost{}
					m.hosts[name] = h
				}
				h.slots, h.removed = n, false
				hosts = append(hosts, static.Host{Key: name, URL: name, Audience: name, Slots: n})
			}
			if hosts == nil {
				hosts = []static.Host{}
			}
			_, err := w.store.Declare(ctx, pool, hosts)
			require.NoError(t, err)
			m.assign()
		}
		declare(t)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				r, n, on := id.Draw(t, "resource"), size.Draw(t, "slots"), ""
				if row := m.rows[r]; row != nil && rapid.Bool().Draw(t, "was ready") {
					on = row.Host
				}
				take(t, r, n, on)
			},
			"release": func(t *rapid.T) {
				r := id.Draw(t, "resource")
				delete(m.rows, r)
				m.assign()
				_, err := w.store.Release(ctx, pool, r, w.fence(pool.Name, r), false)
				require.NoError(t, err)
			},
			"keep": func(t *rapid.T) {
				r := id.Draw(t, "resource")
				m.keep(r)
				m.assign()
				_, err := w.store.Release(ctx, pool, r, w.fence(pool.Name, r), true)
				require.NoError(t, err)
			},
			"late": func(t *rapid.T) {
				r := id.Draw(t, "resource")
				w.fence(pool.Name, r)
				_, err := w.store.Take(ctx, pool, static.Take{Resource: r, Fence: uuid.New(), Slots: size.Draw(t, "slots")})
				require.ErrorContains(t, err, "BR001")
				_, err = w.store.Release(ctx, pool, r, uuid.New(), false)
				require.ErrorContains(t, err, "BR001")
			},
			"cordon": func(t *rapid.T) {
				h, closed := host.Draw(t, "host"), rapid.Bool().Draw(t, "closed")
				err := w.store.Cordon(ctx, pool.Name, h, closed)
				if m.hosts[h] == nil {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				m.hosts[h].cordoned = closed
				if r := id.Draw(t, "newcomer"); m.rows[r] == nil { // before those who wait were given what is free now
					take(t, r, size.Draw(t, "slots"), "")
					return
				}
				_, err = w.store.Assign(ctx, pool) // as Watch does within a second
				require.NoError(t, err)
				m.assign()
			},
			"report": func(t *rapid.T) {
				h, answered := host.Draw(t, "host"), rapid.IntRange(0, 3).Draw(t, "answered") == 0
				_, err := w.store.Report(ctx, pool, h, answered)
				require.NoError(t, err)
				if k := m.hosts[h]; k != nil && answered {
					k.failed, k.unhealthy = 0, false
					m.assign()
				} else if k != nil && !k.unhealthy {
					k.failed++
					k.unhealthy = k.failed >= defaults.PingFailures
				}
			},
			"declare": declare,
			"": func(t *rapid.T) {
				wantRows, wantOrder := m.expected()
				rows, order := w.actual(t, pool.Name)
				require.Empty(t, gocmp.Diff(wantRows, rows))
				require.Empty(t, gocmp.Diff(wantOrder, order))
				hosts, err := w.store.Runtimes(ctx, pool)
				require.NoError(t, err)
				for _, h := range hosts {
					require.Equal(t, m.used(h.Key), h.Used, h.Key)
				}
			},
		})
	})
}
