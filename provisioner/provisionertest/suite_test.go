package provisionertest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

type kind struct {
	types   provisioner.ResourceType
	private bool
	looks   int
}

// backend is a world of fakes as the suite wants it; wrap makes something else of each fake.
func backend(k kind, wrap func(*Fake) provisioner.Provisioner) *Backend {
	w, steps := NewWorld(), &Steps{}
	w.SetRoom(1000)
	open := func(name string) func() provisioner.Provisioner {
		return func() provisioner.Provisioner {
			return wrap(&Fake{Name: name, World: w, Types: []provisioner.ResourceType{k.types}, Private: k.private, Looks: k.looks, Steps: steps})
		}
	}
	return &Backend{
		Name: "a", Open: open("a"), OtherName: "b", OpenOther: open("b"),
		Type: k.types, Args: json.RawMessage(`{"slots": 2, "environment": "prod"}`), Larger: json.RawMessage(`{"slots": 5, "environment": "prod"}`),
		Invalid: []json.RawMessage{json.RawMessage(`{"slots": 0}`), json.RawMessage(`{"slots": -1}`), json.RawMessage(`{"slots": "2"}`), json.RawMessage(`{"slots": 1001}`)},
		Claim:   func(name string, r *provisioner.Resource) { w.SetFence(name, r.ID, r.Fence) },
		Inspect: w.Describe,
		Data: func(name string, id uuid.UUID) string {
			var data []string
			for _, t := range w.Of(name, id) {
				data = append(data, t.Data)
			}
			return strings.Join(data, "")
		},
		Steps: steps,
		Fill:  w.Fill,
		Outage: func() func() {
			w.SetOutage(errors.New("connection refused"))
			return func() { w.SetOutage(nil) }
		},
		Lose: func(name string, id uuid.UUID) { w.Lose(name, id, Instance) },
	}
}

func asIs(f *Fake) provisioner.Provisioner { return f }

func TestFakeConforms(t *testing.T) {
	t.Parallel()

	kinds := map[string]kind{
		"runtime":                       {types: provisioner.Runtime},
		"runtime that takes its time":   {types: provisioner.Runtime, looks: 3},
		"database with a password":      {types: "database", private: true},
		"slow database with a password": {types: "database", private: true, looks: 2},
	}
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Run(t, Harness{New: func(*testing.T) *Backend { return backend(k, asIs) }})
		})
	}
	t.Run("with no more hooks than it must have", func(t *testing.T) {
		t.Parallel()
		Run(t, Harness{New: func(*testing.T) *Backend {
			b := backend(kind{types: "queue"}, func(f *Fake) provisioner.Provisioner { return struct{ provisioner.Provisioner }{f} })
			b.Data, b.Fill, b.Outage, b.Lose, b.Larger, b.Invalid = nil, nil, nil, nil, nil, nil
			return b
		}})
	})
}

// A mutant is a fake with one fault of its own, given by what it does in place of the fake's calls.
type mutant struct {
	provisioner.Provisioner
	f           *Fake
	reconcile   func(context.Context, *provisioner.Resource) (provisioner.Observation, error)
	hibernate   func(context.Context, *provisioner.Resource) (provisioner.Observation, error)
	deprovision func(context.Context, *provisioner.Resource) (provisioner.Observation, error)
	observe     func(context.Context, []provisioner.Resource) ([]provisioner.Observation, error)
	check       func(context.Context) (provisioner.Capacity, error)
	info        func() provisioner.Info
}

func (m *mutant) Reconcile(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	if m.reconcile != nil {
		return m.reconcile(ctx, r)
	}
	return m.f.Reconcile(ctx, r)
}

func (m *mutant) Hibernate(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	if m.hibernate != nil {
		return m.hibernate(ctx, r)
	}
	return m.f.Hibernate(ctx, r)
}

func (m *mutant) Deprovision(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	if m.deprovision != nil {
		return m.deprovision(ctx, r)
	}
	return m.f.Deprovision(ctx, r)
}

func (m *mutant) Observe(ctx context.Context, rs []provisioner.Resource) ([]provisioner.Observation, error) {
	if m.observe != nil {
		return m.observe(ctx, rs)
	}
	return m.f.Observe(ctx, rs)
}

func (m *mutant) Check(ctx context.Context) (provisioner.Capacity, error) {
	if m.check != nil {
		return m.check(ctx)
	}
	return m.f.Check(ctx)
}

func (m *mutant) Info() provisioner.Info {
	if m.info != nil {
		return m.info()
	}
	return m.f.Info()
}

// as makes a mutant's call from the fake's.
func as(f *Fake, r *provisioner.Resource, change func(*provisioner.Resource)) *provisioner.Resource {
	copied := clone(*r)
	change(&copied)
	return &copied
}

var absent = provisioner.Observation{Phase: provisioner.PhaseAbsent}

// TestSuiteFindsFaults proves of each case that it can fail: each broken backend is found by (at least) the cases named, and
// every case is named by one of them.
func TestSuiteFindsFaults(t *testing.T) {
	t.Parallel()

	for name, tt := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := tt.kind
			if k.types == "" {
				k.types = provisioner.Runtime
			}
			for _, c := range cases {
				if !slices.Contains(tt.found, c.name) {
					continue
				}
				b := backend(k, tt.broken)
				if tt.backend != nil {
					tt.backend(b)
				}
				err := c.try(b, Harness{Patience: tt.patience})
				require.Error(t, err, "%s does not find that it %s", c.name, name)
				require.False(t, strings.HasPrefix(err.Error(), "panic: "), "the suite itself panics: %v", err)
				t.Logf("%s finds: %.200s", c.name, err)
			}
		})
	}

	named := map[string]bool{}
	for _, tt := range mutants {
		for _, c := range tt.found {
			named[c] = true
		}
	}
	for _, c := range cases {
		require.True(t, named[c.name], "no mutant proves that %s can fail", c.name)
		delete(named, c.name)
	}
	require.Empty(t, named, "mutants name cases that do not exist")
}

const impatient = 300 * time.Millisecond
