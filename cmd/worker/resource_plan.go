package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/internal/terminal"
	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/set"
)

type resourcePlan struct {
	output
	setFlags
	versionFlag
	ID id `arg:"" name:"ID" help:"The id of the resource, as deployment show tells it."`
}

// planned is what would be changed.
type planned struct {
	ID            uuid.UUID       `json:"id"`
	Provisioner   string          `json:"provisioner"`
	DesiredPhase  string          `json:"desired_phase"` // what is planned is ready, whatever is wished
	Configuration string          `json:"configuration"` // digest of the one that the plan is by
	Acts          bool            `json:"acts"`          // whether that is the one that workers act by
	Changes       []plannedChange `json:"changes"`
}

type plannedChange struct {
	Object string `json:"object"`
	Action string `json:"action"` // create, update, replace or delete
	Detail string `json:"detail"` // for people
}

// Run says what would be changed. It asks the backend as a worker with this configuration would, and changes nothing.
func (c *resourcePlan) Run(ctx context.Context, a *app) error {
	f := a.configured(c.setFlags)
	f.options = c.options()
	if _, err := f.look(); err != nil { // before anything is connected
		return err
	}
	return a.reading(ctx, func(ad *admin) (err error) {
		s, err := f.parse(ad.pool)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return c.plan(ctx, a, ad, s)
	})
}

func (c *resourcePlan) plan(ctx context.Context, a *app, ad *admin, s *set.Set) error {
	p, err := ad.toPlan(ctx, c.ID.UUID)
	if err != nil {
		return err
	}
	backend, known := s.Get(p.Provisioner)
	if !known {
		return &lifecycle.Error{Kind: lifecycle.ErrInvalid, What: "resource " + p.ID.String(), Why: fmt.Sprintf("it is at provisioner %q, which is not in the set", p.Provisioner),
			Remedy: "give the set that its workers have: " + set.EnvSet + " or --provisioner-set"}
	}
	planner, able := backend.(provisioner.Planner)
	if !able {
		return &lifecycle.Error{Kind: lifecycle.ErrInvalid, What: fmt.Sprintf("provisioner %q", p.Provisioner), Why: "its type does not tell beforehand what it would change",
			Remedy: "see worker resource show " + p.ID.String()}
	}
	notes, err := dbsqlc.New().PlaceNotes(ctx, ad.pool, &dbsqlc.PlaceNotesParams{ID: p.ID, Provisioner: p.Provisioner})
	if errors.Is(err, pgx.ErrNoRows) { // it went meanwhile
		return leaving(p.ID)
	}
	if err != nil {
		return fmt.Errorf("read the notes of resource %s: %w", p.ID, err)
	}
	asking, cancel := context.WithTimeoutCause(ctx, defaults.CallTimeout, fmt.Errorf("it took longer than %v, as no call of a worker may", defaults.CallTimeout))
	defer cancel()
	changes, err := planner.Plan(asking, provisioner.Resource{
		ID: p.ID, Type: provisioner.ResourceType(p.Type), Name: p.Name, Args: notes.Args, State: notes.State, Config: notes.Config,
	})
	if err != nil {
		return fmt.Errorf("plan of resource %s at %s: %w", p.ID, p.Provisioner, err)
	}
	result := planned{ID: p.ID, Provisioner: p.Provisioner, DesiredPhase: p.DesiredPhase, Configuration: s.Digest(p.Provisioner), Changes: []plannedChange{}}
	for _, one := range changes {
		result.Changes = append(result.Changes, plannedChange{Object: one.Ref, Action: one.Action, Detail: one.Detail})
	}
	at, err := ad.known(ctx, p.Provisioner)
	if err != nil {
		return err
	}
	result.Acts = at.Digest == result.Configuration
	return c.write(a.stdout, result, func() io.WriterTo { return planText(result) })
}

// toPlan is the place of a resource where something is to be. A place that is to go is not planned: what is left there is removed.
func (ad *admin) toPlan(ctx context.Context, id uuid.UUID) (lifecycle.Place, error) {
	places, err := ad.PlacesOf(ctx, ad.pool, id)
	if err != nil {
		return lifecycle.Place{}, err
	}
	i := slices.IndexFunc(places, func(p lifecycle.Place) bool { return p.DesiredPhase != string(provisioner.PhaseAbsent) })
	if i < 0 {
		return lifecycle.Place{}, leaving(id)
	}
	return places[i], nil
}

func leaving(id uuid.UUID) error {
	return &lifecycle.Error{Kind: lifecycle.ErrConflict, What: "resource " + id.String(), Why: "it is being deleted, so nothing is made or changed for it any more",
		Remedy: "see worker resource show " + id.String()}
}

func planText(p planned) io.WriterTo {
	f := &terminal.Fields{}
	f.Add("resource", p.ID.String())
	f.Add("provisioner", p.Provisioner)
	if p.DesiredPhase != string(provisioner.PhaseReady) {
		f.Add("but", "it is to be "+p.DesiredPhase+": this is what a start would do")
	}
	if !p.Acts {
		f.Add("configuration", shortDigest(p.Configuration)+", which is not the one that workers act by")
	}
	if len(p.Changes) == 0 {
		f.Add("changes", "none: all of it is as asked for")
		return f
	}
	changes := &terminal.Fields{}
	for _, c := range p.Changes {
		what := c.Object
		if c.Detail != "" {
			what += ": " + c.Detail
		}
		changes.Add(c.Action, what)
	}
	return several{f, text("\n"), changes}
}
