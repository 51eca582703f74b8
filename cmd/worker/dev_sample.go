package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db/dbstatic"
	"berth/internal/stub"
	"berth/lifecycle"
	"berth/provisioner/static"
)

// Names of the sample data.
const (
	demoPoolName     = "static-example"
	demoOrganization = "demo"
	demoProject      = "web"
)

// demoSpace is the namespace of the ids of the sample deployments, so that each time the same ones are found.
var demoSpace = uuid.MustParse("8f0a5d0e-6f0b-5e0c-9d5f-6265727468ee")

// demoPorts are where stub runtimes answer if nothing else does.
var demoPorts = []int{9001, 9002, 9003}

// startRuntimes starts the stub runtimes, where those were that deployments have been put on.
func startRuntimes(ctx context.Context, pool *pgxpool.Pool) (_ []*stub.Runtime, err error) {
	ports, err := usedPorts(ctx, pool)
	if err != nil {
		return nil, err
	}
	for _, p := range demoPorts {
		if len(ports) < len(demoPorts) && !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	slices.Sort(ports)
	var started []*stub.Runtime
	for _, p := range ports {
		r, err := stub.Start(ctx, p)
		if err != nil {
			return nil, errors.Join(err, closeRuntimes(started))
		}
		started = append(started, r)
	}
	return started, nil
}

func closeRuntimes(all []*stub.Runtime) error {
	var errs []error
	for _, r := range all {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// usedPorts are those of the pool's hosts that hold something. A pool of that name which is none of ours is left alone: with our
// runtimes in it, its own would take nothing any more.
func usedPorts(ctx context.Context, pool *pgxpool.Pool) ([]int, error) {
	rows, err := dbstatic.New(pool).Runtimes(ctx, static.Pool{Name: demoPoolName})
	if err != nil {
		return nil, fmt.Errorf("look for the runtimes of an earlier run: %w", err)
	}
	var ports []int
	for _, r := range rows {
		u, err := url.Parse(r.URL)
		if err != nil || u.Hostname() != "127.0.0.1" {
			return nil, fmt.Errorf("dev: the database has a pool %q of other runtimes, such as %s: use a database without one", demoPoolName, r.URL)
		}
		if p, err := strconv.Atoi(u.Port()); err == nil && r.Used > 0 {
			ports = append(ports, p)
		}
	}
	return ports, nil
}

// demoSet is the configured set with a pool of the runtimes, large enough for all deployments.
func demoSet(runtimes []*stub.Runtime, deployments int) configured {
	type runtime struct {
		Host    string `json:"host"`
		Slots   int    `json:"slots"`
		DataDir string `json:"data_dir"`
	}
	var all []runtime
	for _, r := range runtimes {
		all = append(all, runtime{r.URL(), max(50, deployments), "/mnt/data"})
	}
	b, err := json.Marshal(map[string]any{demoPoolName: map[string]any{"type": static.Type, "spec": map[string]any{"runtimes": all}}})
	if err != nil {
		panic(err) // it is made of text and numbers
	}
	return configured{set: given{text: string(b)}, defaultName: given{text: demoPoolName}}
}

// demo makes the sample data where it is not there yet, and has it run. It returns the deployments as they are then.
func (ad *admin) demo(ctx context.Context, n int) ([]lifecycle.Deployment, error) {
	made := make([]lifecycle.Deployment, n)
	err := ad.tx(ctx, func(tx pgx.Tx) error {
		project, err := ad.demoProject(ctx, tx)
		if err != nil {
			return err
		}
		ids := make([]uuid.UUID, n)
		for i := range ids {
			if ids[i], err = ad.demoDeployment(ctx, tx, project, i+1); err != nil {
				return err
			}
		}
		if err := ad.Start(ctx, tx, ids...); err != nil { // one of an earlier run may have been stopped
			return err
		}
		for i, id := range ids {
			if made[i], err = ad.Get(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	return made, err
}

func (ad *admin) demoProject(ctx context.Context, tx pgx.Tx) (uuid.UUID, error) {
	o, err := ad.OrganizationByName(ctx, tx, demoOrganization)
	if errors.Is(err, lifecycle.ErrNotFound) {
		o, err = ad.CreateOrganization(ctx, tx, demoOrganization, "")
	}
	if err != nil {
		return uuid.Nil, err
	}
	p, err := ad.ProjectByName(ctx, tx, demoOrganization, demoProject)
	if errors.Is(err, lifecycle.ErrNotFound) {
		p, err = ad.CreateProject(ctx, tx, lifecycle.NewProject{OrganizationID: o.ID, Name: demoProject, Provisioner: demoPoolName})
	}
	return p.ID, err
}

// demoDeployment makes the deployment of a number. An id is never used twice, so one that was deleted has a successor.
func (ad *admin) demoDeployment(ctx context.Context, tx pgx.Tx, project uuid.UUID, number int) (uuid.UUID, error) {
	name := fmt.Sprintf("%s/%s/%d", demoOrganization, demoProject, number)
	for {
		id := uuid.NewSHA1(demoSpace, []byte(name))
		err := ad.Create(ctx, tx, lifecycle.NewDeployment{ID: id, ProjectID: project})
		if !errors.Is(err, lifecycle.ErrConflict) {
			return id, err
		}
		name += "'"
	}
}
