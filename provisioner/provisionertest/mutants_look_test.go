package provisionertest

import (
	"context"
	"slices"

	"berth/provisioner"
)

// mutantsThatLook are wrong in what they say, list or plan.
var mutantsThatLook = map[string]specimen{
	"says absent when it could not look": {
		found: []string{"UnknownIsNotAbsent", "ObserveInterrupted", "CancelledContext"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, observe: func(ctx context.Context, rs []resource) ([]observation, error) {
				got, err := f.Observe(ctx, rs)
				if err != nil {
					return slices.Repeat([]observation{absent}, len(rs)), nil
				}
				return got, nil
			}}
		},
	},
	"takes another's things for its own": {
		found: []string{"ObserveInOrder", "OthersThingsLeftAlone"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, observe: func(ctx context.Context, rs []resource) ([]observation, error) {
				got, err := f.Observe(ctx, rs)
				for i := range got {
					if got[i].Phase == provisioner.PhaseAbsent && f.World.Exists(rs[i].ID) {
						got[i].Phase = provisioner.PhaseReady
					}
				}
				return got, err
			}}
		},
	},
	"leaves out what is absent": {
		found: []string{"ObserveInOrder", "UnknownIsNotAbsent", "ObserveInterrupted"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, observe: func(ctx context.Context, rs []resource) ([]observation, error) {
				got, err := f.Observe(ctx, rs)
				return slices.DeleteFunc(got, func(o observation) bool { return o.Phase == provisioner.PhaseAbsent }), err
			}}
		},
	},
	"observes in another order": {
		found: []string{"ObserveInOrder", "UnknownIsNotAbsent"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, observe: func(ctx context.Context, rs []resource) ([]observation, error) {
				got, err := f.Observe(ctx, rs)
				slices.Reverse(got)
				return got, err
			}}
		},
	},
	"repairs when it should observe": {
		found: []string{"ObserveInOrder"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, observe: func(ctx context.Context, rs []resource) ([]observation, error) {
				for i := range rs {
					_, _ = f.Reconcile(ctx, &rs[i])
				}
				return f.Observe(ctx, rs)
			}}
		},
	},
	"does not see what was lost": {
		found: []string{"Repair"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, observe: func(ctx context.Context, rs []resource) ([]observation, error) {
				got, err := f.Observe(ctx, rs)
				for i := range got {
					if got[i].Phase == provisioner.PhaseHibernated {
						got[i].Phase = provisioner.PhaseReady
					}
				}
				return got, err
			}}
		},
	},
	"is well while nothing answers": {
		found: []string{"UnknownIsNotAbsent", "CancelledContext"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, check: func(ctx context.Context) (provisioner.Capacity, error) {
				c, _ := f.Check(ctx)
				return c, nil
			}}
		},
	},
	"does not count": {
		found: []string{"Check"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, check: func(ctx context.Context) (provisioner.Capacity, error) {
				c, err := f.Check(ctx)
				c.Used = new(int)
				return c, err
			}}
		},
	},
	"does not know its type": {
		found: []string{"Info"},
		broken: func(f *Fake) provisioner.Provisioner {
			return &mutant{f: f, info: func() provisioner.Info { return provisioner.Info{} }}
		},
	},
	"takes no steps": {
		found:   []string{"InterruptedCreate", "ObserveInterrupted"},
		broken:  asIs,
		backend: func(b *Backend) { b.Steps = &Steps{} },
	},
	"lists what is not its own": {
		found:  []string{"Lister"},
		broken: func(f *Fake) provisioner.Provisioner { return &listsAll{Fake: f} },
	},
	"lists half of it when it fails": {
		found:  []string{"Lister"},
		broken: func(f *Fake) provisioner.Provisioner { return &listsHalf{Fake: f} },
	},
	"removes by name": {
		found:  []string{"Lister"},
		broken: func(f *Fake) provisioner.Provisioner { return &removesByName{Fake: f} },
	},
	"plans nothing": {
		found:  []string{"Planner"},
		broken: func(f *Fake) provisioner.Provisioner { return &plansNothing{Fake: f} },
	},
	"plans by doing": {
		found:  []string{"Planner"},
		broken: func(f *Fake) provisioner.Provisioner { return &plansByDoing{Fake: f} },
	},
	"reserves nothing": {
		found:  []string{"Reserver"},
		broken: func(f *Fake) provisioner.Provisioner { return &reservesNothing{Fake: f} },
	},
	"watches for ever": {
		found:    []string{"Watcher"},
		patience: impatient,
		broken:   func(f *Fake) provisioner.Provisioner { return &watchesOn{Fake: f} },
	},
	"activates by clearing": {
		found:  []string{"Activator"},
		broken: func(f *Fake) provisioner.Provisioner { return &activatesAnew{Fake: f} },
	},
}
