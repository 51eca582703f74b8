package provisionertest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"berth/provisioner"
)

type specimen struct {
	found    []string // by these cases
	kind     kind
	patience time.Duration
	broken   func(f *Fake) provisioner.Provisioner
	backend  func(b *Backend)
}

type (
	resource    = provisioner.Resource
	observation = provisioner.Observation
)

// mutants are the broken backends, by what is wrong with them.
var mutants = func() map[string]specimen {
	all := maps.Clone(mutantsThatAct)
	maps.Copy(all, mutantsThatLook)
	return all
}()

// sizes is what a mutant remembers beyond a call.
type sizes struct {
	mu    sync.Mutex
	first map[uuid.UUID][]byte
}

// mutantsThatAct are wrong in what they change.
var mutantsThatAct = map[string]specimen{
	"says absent when the deletion failed": {
		found: []string{"InterruptedDeprovision", "UnknownIsNotAbsent", "CancelledContext", "HangingBackend"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, deprovision: func(ctx context.Context, r *resource) (observation, error) {
				_, _ = f.Deprovision(ctx, r)
				return absent, nil
			}}
		},
	},
	"says absent beside its error": {
		found: []string{"InterruptedDeprovision", "UnknownIsNotAbsent"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, deprovision: func(ctx context.Context, r *resource) (observation, error) {
				_, err := f.Deprovision(ctx, r)
				return absent, err
			}}
		},
	},
	"forgets the state with an error": {
		found: []string{"StateKeptWithError", "InterruptedWake", "InterruptedResize"},
		kind:  kind{types: "database", private: true},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				o, err := f.Reconcile(ctx, r)
				if err != nil {
					r.State = nil
				}
				return o, err
			}}
		},
	},
	"uses a password before it is stored": {
		found: []string{"InterruptedCreate"},
		kind:  kind{types: "database", private: true},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				o, err := f.Reconcile(ctx, r)
				if err == nil && o.Reason == "PasswordMade" {
					return f.Reconcile(ctx, r)
				}
				return o, err
			}}
		},
	},
	"makes one more when it is called again": {
		found: []string{"SameCallTwice", "InterruptedCreate", "LateCreate", "Concurrent"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				had := len(f.World.Of(f.Name, r.ID)) > 0
				o, err := f.Reconcile(ctx, r)
				if had && err == nil {
					f.World.Put(Thing{Provisioner: f.Name, ID: r.ID, Type: r.Type, Part: Part("disk-" + uuid.NewString())})
				}
				return o, err
			}, deprovision: func(ctx context.Context, r *resource) (observation, error) {
				for _, t := range f.World.Of(f.Name, r.ID) {
					f.World.Lose(f.Name, r.ID, t.Part)
				}
				return f.Deprovision(ctx, r)
			}}
		},
	},
	"deletes another's things of the same name": {
		found: []string{"OthersThingsLeftAlone"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, deprovision: func(ctx context.Context, r *resource) (observation, error) {
				for _, t := range f.World.Things() {
					if t.ID == r.ID {
						f.World.Lose(t.Provisioner, t.ID, t.Part)
					}
				}
				return f.Deprovision(ctx, r)
			}}
		},
	},
	"ignores the fence": {
		found: []string{"LateCreate", "LateResize", "LateWake", "LateHibernate", "LateDeprovision"},
		broken: func(f *Fake) provisioner.Provisioner {
			f.World.Guard = func(_ context.Context, _ string, _, _ uuid.UUID, write func() error) error { return write() }
			return f
		},
	},
	"checks the fence at the beginning of a call only": {
		found: []string{"LateResize", "LateHibernate", "LateDeprovision"},
		broken: func(f *Fake) provisioner.Provisioner {
			f.World.Guard = func(_ context.Context, _ string, _, _ uuid.UUID, write func() error) error { return write() }
			guarded := func(do func(context.Context, *resource) (observation, error)) func(context.Context, *resource) (observation, error) {
				return func(ctx context.Context, r *resource) (observation, error) {
					f.World.mu.Lock()
					current, ok := f.World.fences[thingKey{name: f.Name, id: r.ID}]
					f.World.mu.Unlock()
					if ok && current != r.Fence {
						return observation{}, errFenced
					}
					return do(ctx, r)
				}
			}
			return &mutant{f: f, reconcile: guarded(f.Reconcile), hibernate: guarded(f.Hibernate), deprovision: guarded(f.Deprovision)}
		},
	},
	"swallows errors": {
		found: []string{"InterruptedCreate", "InterruptedResize", "InterruptedWake", "UnknownIsNotAbsent", "InvalidArgs", "ResizeWithoutRoom", "CreateWithoutRoom"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				o, err := f.Reconcile(ctx, r)
				if err != nil {
					return observation{Phase: provisioner.PhaseReady}, nil
				}
				return o, nil
			}}
		},
	},
	"says hibernated before it is": {
		found: []string{"InterruptedHibernate"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, hibernate: func(ctx context.Context, r *resource) (observation, error) {
				_, _ = f.Hibernate(ctx, r)
				return observation{Phase: provisioner.PhaseHibernated}, nil
			}}
		},
	},
	"hibernates by deleting": {
		found: []string{"HibernateAndWake", "Resize"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, hibernate: func(ctx context.Context, r *resource) (observation, error) {
				if _, err := f.Deprovision(ctx, r); err != nil {
					return observation{Phase: provisioner.PhaseUnknown}, err
				}
				return observation{Phase: provisioner.PhaseHibernated}, nil
			}}
		},
	},
	"resizes by making it anew": {
		found: []string{"Resize"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				if changes, err := f.Plan(ctx, *r); err == nil && len(changes) == 2 {
					if _, err := f.Deprovision(ctx, r); err != nil {
						return observation{Phase: provisioner.PhaseUnknown}, err
					}
				}
				return f.Reconcile(ctx, r)
			}}
		},
	},
	"does not resize": {
		found: []string{"Resize", "InterruptedResize"},
		broken: func(f *Fake) provisioner.Provisioner {
			s := memory(f)
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				copied := as(f, r, func(r *resource) {
					s.mu.Lock()
					defer s.mu.Unlock()
					if s.first[r.ID] == nil {
						s.first[r.ID] = r.Args
					}
					r.Args = s.first[r.ID]
				})
				o, err := f.Reconcile(ctx, copied)
				r.State, r.Config = copied.State, copied.Config
				return o, err
			}}
		},
	},
	"calls a full pool invalid": {
		found: []string{"ResizeWithoutRoom", "CreateWithoutRoom", "Reserver"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &fullIsInvalid{Fake: f}
		},
	},
	"gives up its place when there is no room to grow": {
		found: []string{"ResizeWithoutRoom"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				o, err := f.Reconcile(ctx, r)
				if errors.Is(err, provisioner.ErrNoCapacity) {
					_, _ = f.Deprovision(ctx, r)
				}
				return o, err
			}}
		},
	},
	"does not listen to its context": {
		found:    []string{"CancelledContext", "HangingBackend"},
		patience: impatient,
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(_ context.Context, r *resource) (observation, error) {
				return f.Reconcile(theEnd, r)
			}}
		},
	},
	"needs its state to deprovision": {
		found: []string{"DeprovisionOfNothing", "DeprovisionByIDAndType"},
		kind:  kind{types: "database", private: true},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, deprovision: func(ctx context.Context, r *resource) (observation, error) {
				if len(r.State) == 0 {
					return observation{Phase: provisioner.PhaseUnknown}, errors.New("no state")
				}
				return f.Deprovision(ctx, r)
			}}
		},
	},
	"takes what is gone for a failure": {
		found: []string{"DeprovisionOfNothing", "SameCallTwice", "InterruptedDeprovision"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, deprovision: func(ctx context.Context, r *resource) (observation, error) {
				if len(f.World.Of(f.Name, r.ID)) == 0 {
					return observation{Phase: provisioner.PhaseUnknown}, errors.New("not found")
				}
				return f.Deprovision(ctx, r)
			}}
		},
	},
	"says absent and leaves the disk": {
		found: []string{"SameCallTwice", "DeprovisionByIDAndType", "Check"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, deprovision: func(ctx context.Context, r *resource) (observation, error) {
				_, err := f.Hibernate(ctx, r)
				if err != nil {
					return observation{Phase: provisioner.PhaseUnknown}, err
				}
				return absent, nil
			}}
		},
	},
	"changes the args": {
		found: []string{"SameCallTwice"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				o, err := f.Reconcile(ctx, r)
				r.Args = []byte(`{"slots":2,"environment":"prod"}`)
				return o, err
			}}
		},
	},
	"refuses a key that it does not know": {
		found: []string{"ArgsOfANewerProcess"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				if _, err := provisioner.DecodeSpec[provisioner.RuntimeArgs](r.Args); err != nil {
					return observation{Phase: provisioner.PhaseUnknown}, err
				}
				return f.Reconcile(ctx, r)
			}}
		},
	},
	"cannot stop what it could not make": {
		found: []string{"InvalidArgs", "HibernateOfNothing"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, hibernate: func(ctx context.Context, r *resource) (observation, error) {
				if _, err := f.slots(r); err != nil {
					return observation{Phase: provisioner.PhaseUnknown}, err
				}
				if len(f.World.Of(f.Name, r.ID)) == 0 {
					return absent, nil
				}
				return f.Hibernate(ctx, r)
			}}
		},
	},
	"mixes up those who call at once": {
		found: []string{"Concurrent"},
		broken: func(f *Fake) provisioner.Provisioner {
			var one sync.Mutex
			return &mutant{f: f, hibernate: func(ctx context.Context, r *resource) (observation, error) {
				if !one.TryLock() {
					return observation{Phase: provisioner.PhaseUnknown}, errors.New("busy")
				}
				defer one.Unlock()
				for other := range f.World.others(f.Name, r.ID) {
					f.World.Lose(f.Name, other, Instance)
				}
				return f.Hibernate(ctx, r)
			}}
		},
	},
	"is not ready in the end": {
		found: []string{"SameCallTwice", "InterruptedCreate"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				_, err := f.Reconcile(ctx, r)
				return observation{Phase: provisioner.PhasePending}, err
			}}
		},
	},
	"panics": {
		found: []string{"SameCallTwice"},
		broken: func(f *Fake) provisioner.Provisioner {
			f.Always(Hibernate, uuid.Nil, Panic("ouch"))
			return f
		},
	},
	"says less than is needed to reach it": {
		found: []string{"SameCallTwice"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, reconcile: func(ctx context.Context, r *resource) (observation, error) {
				o, err := f.Reconcile(ctx, r)
				r.Config = []byte(`{"host": "http://a.test"}`)
				return o, err
			}}
		},
	},
}
