package static_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/provisioner"
	"berth/provisioner/provisionertest"
	"berth/provisioner/static"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{false, true} {
		for _, strategy := range []string{"spread", "pack"} {
			t.Run(fmt.Sprintf("%s/release_on_stop=%v", strategy, release), func(t *testing.T) {
				t.Parallel()
				provisionertest.Run(t, provisionertest.Harness{New: func(t *testing.T) *provisionertest.Backend {
					return backend(t, strategy, release)
				}})
			})
		}
	}
}

func backend(t *testing.T, strategy string, release bool) *provisionertest.Backend {
	const size = 8
	w := newWorld(t, "a", "b")
	hosts := []*stub{newStub(t), newStub(t)}
	s := map[string]any{
		"strategy": strategy, "release_on_stop": release,
		"runtimes": []map[string]any{runtime(hosts[0].url, size), runtime(hosts[1].url, size)},
	}
	for _, name := range []string{"a", "b"} {
		if err := w.open(name, s).Activate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	steps := &provisionertest.Steps{}
	open := func(name string) func() provisioner.Provisioner {
		return func() provisioner.Provisioner {
			return w.openVia(&stepped{Store: w.store, steps: steps}, steppedTransport{steps}, name, s)
		}
	}
	return &provisionertest.Backend{
		Name: "a", Open: open("a"), OtherName: "b", OpenOther: open("b"),
		Type: provisioner.Runtime, Args: args(1), Larger: args(2),
		Invalid: []json.RawMessage{json.RawMessage(`{"slots": 0}`), json.RawMessage(`{"slots": 9}`), json.RawMessage(`{"slots": 4294967297}`), json.RawMessage(`{"slots": 1, "version": "x y"}`)},
		Room:    2 * size,
		Claim:   w.claim,
		Inspect: w.inspect,
		Steps:   steps,
		Fill:    func() func() { return w.fill(static.Pool{Name: "a"}) },
	}
}

// inspect lists what a resource holds.
func (w *world) inspect(pool string, id uuid.UUID) []string {
	rows, err := w.db.Pool.Query(context.Background(), `
		SELECT slots || ' slots' FROM berth.static_slots WHERE provisioner = $1 AND resource_id = $2 AND host IS NOT NULL`, pool, id)
	if err != nil {
		panic(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		panic(err)
	}
	if len(lines) == 0 {
		return nil
	}
	return lines
}

// fill takes every free slot of a pool.
func (w *world) fill(pool static.Pool) (release func()) {
	ctx := context.Background()
	held := map[uuid.UUID]uuid.UUID{}
	for {
		hosts, err := w.store.Runtimes(ctx, pool)
		if err != nil {
			panic(err)
		}
		free := 0
		for _, h := range hosts {
			free = max(free, h.Slots-h.Used)
		}
		if free == 0 {
			break
		}
		id := uuid.New()
		held[id] = w.fence(pool.Name, id)
		if _, err := w.store.Take(ctx, pool, static.Take{Resource: id, Fence: held[id], Slots: free}); err != nil {
			panic(err)
		}
	}
	return func() {
		for id, fence := range held {
			if _, err := w.store.Release(ctx, pool, id, fence, false); err != nil {
				panic(err)
			}
		}
	}
}

// stepped puts every call of a store through the suite's steps.
type stepped struct {
	static.Store
	steps *provisionertest.Steps
}

func (s *stepped) Declare(ctx context.Context, pool static.Pool, hosts []static.Host) (served []uuid.UUID, err error) {
	err = s.steps.Do(ctx, "declare", func(ctx context.Context) (err error) {
		served, err = s.Store.Declare(ctx, pool, hosts)
		return err
	})
	return served, err
}

func (s *stepped) Take(ctx context.Context, pool static.Pool, t static.Take) (p static.Place, err error) {
	err = s.steps.Do(ctx, "take", func(ctx context.Context) (err error) {
		p, err = s.Store.Take(ctx, pool, t)
		return err
	})
	return p, err
}

func (s *stepped) Release(ctx context.Context, pool static.Pool, id, fence uuid.UUID, keep bool) (p static.Place, err error) {
	err = s.steps.Do(ctx, "release", func(ctx context.Context) (err error) {
		p, err = s.Store.Release(ctx, pool, id, fence, keep)
		return err
	})
	return p, err
}

func (s *stepped) Report(ctx context.Context, pool static.Pool, host string, answered bool) (served []uuid.UUID, err error) {
	err = s.steps.Do(ctx, "report", func(ctx context.Context) (err error) {
		served, err = s.Store.Report(ctx, pool, host, answered)
		return err
	})
	return served, err
}

func (s *stepped) Assign(ctx context.Context, pool static.Pool) (served []uuid.UUID, err error) {
	err = s.steps.Do(ctx, "assign", func(ctx context.Context) (err error) {
		served, err = s.Store.Assign(ctx, pool)
		return err
	})
	return served, err
}

func (s *stepped) Places(ctx context.Context, pool static.Pool, ids []uuid.UUID) (places map[uuid.UUID]static.Place, err error) {
	err = s.steps.Do(ctx, "places", func(ctx context.Context) (err error) {
		places, err = s.Store.Places(ctx, pool, ids)
		return err
	})
	return places, err
}

func (s *stepped) Runtimes(ctx context.Context, pool static.Pool) (hosts []static.Runtime, err error) {
	err = s.steps.Do(ctx, "runtimes", func(ctx context.Context) (err error) {
		hosts, err = s.Store.Runtimes(ctx, pool)
		return err
	})
	return hosts, err
}

// steppedTransport puts every ping through them.
type steppedTransport struct{ steps *provisionertest.Steps }

func (s steppedTransport) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	err = s.steps.Do(r.Context(), "ping", func(ctx context.Context) (err error) {
		answer, err = http.DefaultTransport.RoundTrip(r.Clone(ctx)) //nolint:bodyclose // the caller closes it, and below it is closed for it
		return err
	})
	if err != nil && answer != nil {
		_ = answer.Body.Close()
		answer = nil
	}
	return answer, err
}
