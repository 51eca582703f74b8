package lifecycle_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/lifecycle"
)

// TestSequences does random things to a few deployments, runs of the engine between them, and compares every row, job and event
// with the model after each.
func TestSequences(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		h, w := newHarness(b, 3), newWorld(3)
		defer h.forget(t, w)
		somePlace := func(t *rapid.T, is func(*mPlace) bool) (int, int, *mPlace) {
			var at [][2]int
			for i, d := range w.Deployments {
				for n, p := range d.Places {
					if is(p) {
						at = append(at, [2]int{i, n})
					}
				}
			}
			if len(at) == 0 {
				return 0, 0, nil
			}
			x := rapid.SampledFrom(at).Draw(t, "place")
			return x[0], x[1], w.Deployments[x[0]].Places[x[1]]
		}
		t.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				o := op{
					Call: rapid.SampledFrom(calls).Draw(t, "call"), Name: rapid.SampledFrom([]string{"", "x"}).Draw(t, "name"), Size: rapid.IntRange(1, 3).Draw(t, "size"),
					Slots: rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 1, 3, func(i int) int { return i }).Draw(t, "of"),
				}
				abandoned := rapid.IntRange(0, 7).Draw(t, "rolls back at 0") == 0
				errAbandoned := errors.New("the caller thinks better of it")
				next := w.clone()
				want := next.apply(o)
				err := h.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
					if err := h.call(o)(ctx, tx); err != nil || !abandoned {
						return err
					}
					return errAbandoned
				})
				switch {
				case want != nil:
					require.ErrorIs(t, err, want, o)
				case abandoned:
					require.ErrorIs(t, err, errAbandoned, o)
				default:
					require.NoError(t, err, o)
					*w = *next
				}
				h.compare(t, w, o.String())
			},
			"run begins": func(t *rapid.T) {
				i, n, p := somePlace(t, func(p *mPlace) bool { return !p.Leased && p.Claimed < p.Generation })
				if p == nil {
					return
				}
				h.claim(t, h.place(t, i, n))
				w.claim(p)
				h.compare(t, w, "the claim of "+p.label())
			},
			"run ends": func(t *rapid.T) {
				i, n, p := somePlace(t, func(p *mPlace) bool { return p.Leased })
				if p == nil {
					return
				}
				name := rapid.SampledFrom(append(slices.Sorted(maps.Keys(outcomes)), "done", "done")).Draw(t, "outcome")
				o := p.outcomeOf(name)
				h.finish(t, i, h.place(t, i, n), o)
				w.finish(i, p, o)
				h.compare(t, w, name+" of "+p.label())
			},
			"time passes": func(t *rapid.T) {
				i, n, p := somePlace(t, func(p *mPlace) bool { return p.Deadline == "ahead" })
				if p == nil {
					return
				}
				_, err := h.pool.Exec(t.Context(), "UPDATE berth.provisioner_resources SET deadline_at = clock_timestamp() - interval '1 second' WHERE id = $1", h.place(t, i, n))
				require.NoError(t, err)
				p.Deadline = "past"
			},
			"a provisioner comes or goes": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{staticA, baseA}).Draw(t, "name")
				w.missing[name] = !w.missing[name]
				h.seen(t, name, !w.missing[name])
			},
		})
	})
}

// seen has a provisioner be there, or missing.
func (h *harness) seen(t failer, name string, there bool) {
	_, err := h.pool.Exec(t.Context(), "UPDATE berth.provisioners SET seen_at = now() - CASE WHEN $2 THEN interval '0' ELSE interval '1 hour' END WHERE name = $1", name, there)
	require.NoError(t, err)
}

// forget ends a sequence: everything goes, and the provisioners are back.
func (h *harness) forget(t failer, w *world) {
	for name := range w.missing {
		h.seen(t, name, true)
	}
	h.load(t)
	var all []int
	for i, d := range w.Deployments {
		if d.Exists {
			all = append(all, i)
		}
	}
	require.NoError(t, h.try(t.Context(), h.call(op{Call: "delete", Slots: all})))
	for i, d := range w.Deployments {
		for range d.Places {
			id := h.place(t, i, 0)
			h.claim(t, id)
			h.finish(t, i, id, outcome{Phase: "absent", Met: true})
		}
	}
	got := h.load(t)
	for _, d := range got.Deployments {
		require.False(t, d.Exists, "everything can be deleted, whatever happened")
	}
	_, err := h.client.Get(t.Context(), h.pool, h.ids[0])
	require.ErrorIs(t, err, lifecycle.ErrNotFound)
}
