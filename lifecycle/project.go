package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/provisioner"
)

// A Project holds what its new deployments start from. It may name their provisioner.
type Project struct {
	ID           uuid.UUID         `json:"id"`
	Organization string            `json:"organization"`
	Name         string            `json:"name"`
	Provisioner  string            `json:"provisioner"` // empty: the organization's, or the default
	Slots        int               `json:"slots"`
	Version      string            `json:"version"`
	Annotations  map[string]string `json:"annotations"`
	CreatedAt    time.Time         `json:"created_at"`
}

func project(p *dbsqlc.Project, organization string) (Project, error) {
	out := Project{ID: p.ID, Organization: organization, Name: p.Name, Slots: int(p.Slots), Version: p.Version, CreatedAt: p.CreatedAt.UTC()}
	if p.Provisioner != nil {
		out.Provisioner = *p.Provisioner
	}
	if err := json.Unmarshal(p.Annotations, &out.Annotations); err != nil {
		return out, fmt.Errorf("read the annotations of project %s: %w", p.ID, err)
	}
	return out, nil
}

// NewProject is what a project is made of. Zero values take the defaults: one slot, the latest version.
type NewProject struct {
	OrganizationID uuid.UUID
	Name           string
	Provisioner    string
	Slots          int
	Version        string
	Annotations    map[string]string
}

// CreateProject makes a project. A name that the organization has, in any case, is a conflict.
func (c *Client) CreateProject(ctx context.Context, tx dbsqlc.DBTX, n NewProject) (Project, error) {
	n.Slots, n.Version = cmp.Or(n.Slots, 1), cmp.Or(n.Version, "latest")
	err := cmp.Or(checkName("project", n.Name), checkSlots(n.Slots), checkVersion(n.Version), checkAnnotations(n.Annotations))
	if err != nil {
		return Project{}, err
	}
	p := &dbsqlc.ProjectInsertParams{OrganizationID: n.OrganizationID, Name: n.Name, Slots: int32(n.Slots), Version: n.Version, Annotations: json.RawMessage(`{}`)}
	if n.Provisioner != "" {
		if err := c.checkProvisioner(ctx, tx, n.Provisioner); err != nil {
			return Project{}, err
		}
		p.Provisioner = &n.Provisioner
	}
	if len(n.Annotations) > 0 {
		if p.Annotations, err = json.Marshal(n.Annotations); err != nil {
			return Project{}, fmt.Errorf("encode annotations: %w", err)
		}
	}
	o, err := c.q.OrganizationKeep(ctx, tx, n.OrganizationID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Project{}, refuse(ErrNotFound, fmt.Sprintf("organization %s", n.OrganizationID), "it does not exist", "create it first")
	}
	if err != nil {
		return Project{}, stored(err, "find an organization")
	}
	row, err := c.q.ProjectInsert(ctx, tx, p)
	if errors.Is(err, pgx.ErrNoRows) {
		return Project{}, refuse(ErrConflict, fmt.Sprintf("project %q", o.Name+"/"+n.Name), "it exists", "use it, or choose another name")
	}
	if err != nil {
		return Project{}, stored(err, "create a project")
	}
	return project(row, o.Name)
}

// A ProjectChange is what an update asks for. Zero values leave things as they are.
type ProjectChange struct {
	Provisioner *string // empty: the organization's, or the default
	Slots       int
	Version     string
	Annotations map[string]string // added, or replaced where the keys are the same
	Forget      []string          // annotations to remove
}

// UpdateProject changes what new deployments of a project start from. What exists stays as it is, and where it is.
func (c *Client) UpdateProject(ctx context.Context, tx pgx.Tx, id uuid.UUID, change ProjectChange) (Project, error) {
	if err := change.check(); err != nil {
		return Project{}, err
	}
	row, err := c.q.ProjectLock(ctx, tx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Project{}, refuse(ErrNotFound, "project "+id.String(), "it does not exist", "see the list of projects")
	}
	if err != nil {
		return Project{}, stored(err, "lock a project")
	}
	p, err := project(&row.Project, row.Organization)
	if err != nil {
		return Project{}, err
	}
	if change.Provisioner != nil && *change.Provisioner != p.Provisioner {
		if *change.Provisioner != "" {
			if err := c.checkProvisioner(ctx, tx, *change.Provisioner); err != nil {
				return Project{}, err
			}
		}
		p.Provisioner = *change.Provisioner
	}
	p.Slots, p.Version = cmp.Or(change.Slots, p.Slots), cmp.Or(change.Version, p.Version)
	for _, k := range change.Forget {
		delete(p.Annotations, k)
	}
	maps.Copy(p.Annotations, change.Annotations)
	if len(p.Annotations) > maxAnnotations {
		return Project{}, tooManyAnnotations(fmt.Sprintf("project %q", p.Organization+"/"+p.Name), len(p.Annotations))
	}
	store := &dbsqlc.ProjectUpdateParams{ID: id, Slots: int32(p.Slots), Version: p.Version, Annotations: provisioner.Encode(p.Annotations)}
	if p.Provisioner != "" {
		store.Provisioner = &p.Provisioner
	}
	return p, stored(c.q.ProjectUpdate(ctx, tx, store), "update a project")
}

func (change ProjectChange) check() error {
	if change.Provisioner == nil && change.Slots == 0 && change.Version == "" && len(change.Annotations) == 0 && len(change.Forget) == 0 {
		return refuse(ErrInvalid, "update", "it changes nothing", "name a provisioner, slots, a version or annotations")
	}
	err := cmp.Or(checkAnnotations(change.Annotations), checkForget(change.Forget))
	if err == nil && change.Slots != 0 {
		err = checkSlots(change.Slots)
	}
	if err == nil && change.Version != "" {
		err = checkVersion(change.Version)
	}
	return err
}

// DeleteProject lets a project go. While it has deployments, being deleted ones among them, that is a conflict. What is gone
// already counts as done.
func (c *Client) DeleteProject(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	rows, err := c.q.ProjectLockDelete(ctx, tx, id)
	if err != nil {
		return stored(err, "lock a project")
	}
	for _, p := range rows {
		return c.deleteProjects(ctx, tx, fmt.Sprintf("project %q", p.Organization+"/"+p.Name), rows)
	}
	return nil
}

// deleteProjects lets projects go that the caller has locked, unless they have deployments.
func (c *Client) deleteProjects(ctx context.Context, tx pgx.Tx, what string, projects []*dbsqlc.ProjectLockDeleteRow) error {
	ids := make([]uuid.UUID, len(projects))
	for i, p := range projects {
		ids[i] = p.ID
	}
	n, err := c.q.ProjectDeployments(ctx, tx, ids)
	if err != nil {
		return stored(err, "count deployments")
	}
	if n.Deployments > 0 {
		why := "it has 1 deployment"
		if n.Deployments > 1 {
			why = fmt.Sprintf("it has %d deployments", n.Deployments)
		}
		remedy := "delete what the list of its deployments shows, and try again when that is gone"
		switch {
		case n.Deleting == n.Deployments:
			why, remedy = why+", being deleted already", "try again when that is gone"
		case n.Deleting > 0:
			why += fmt.Sprintf(", %d of them being deleted already", n.Deleting)
		}
		return refuse(ErrConflict, what, why, remedy)
	}
	return stored(c.q.ProjectDelete(ctx, tx, ids), "delete projects")
}

// ProjectByName finds one, whatever the case of the names.
func (c *Client) ProjectByName(ctx context.Context, tx dbsqlc.DBTX, organization, name string) (Project, error) {
	row, err := (*dbsqlc.ProjectByNameRow)(nil), pgx.ErrNoRows
	if nameForm.MatchString(organization) && nameForm.MatchString(name) { // no other name exists, and some could not even be asked for
		row, err = c.q.ProjectByName(ctx, tx, &dbsqlc.ProjectByNameParams{Organization: organization, Name: name})
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return Project{}, refuse(ErrNotFound, "project "+quote(organization+"/"+name), "it does not exist", "see the list of projects")
	}
	if err != nil {
		return Project{}, stored(err, "find a project")
	}
	return project(&row.Project, row.Organization)
}

// Projects lists some by organization and name, a page at a time: so many, or defaults.Page if zero, after the one named.
func (c *Client) Projects(ctx context.Context, tx dbsqlc.DBTX, afterOrganization, afterName string, limit int) ([]Project, error) {
	err := cmp.Or(checkLimit(limit), checkFilter("organization", afterOrganization, nameForm.MatchString(afterOrganization)),
		checkFilter("project", afterName, nameForm.MatchString(afterName)))
	if err != nil {
		return nil, err
	}
	rows, err := c.q.ProjectList(ctx, tx, &dbsqlc.ProjectListParams{AfterOrganization: afterOrganization, AfterName: afterName, Most: int32(cmp.Or(limit, defaults.Page))})
	if err != nil {
		return nil, stored(err, "list projects")
	}
	out := make([]Project, len(rows))
	for i, r := range rows {
		p := &dbsqlc.Project{ID: r.ID, Name: r.Name, Provisioner: r.Provisioner, Slots: r.Slots, Version: r.Version, Annotations: r.Annotations, CreatedAt: r.CreatedAt}
		if out[i], err = project(p, r.Organization); err != nil {
			return nil, err
		}
	}
	return out, nil
}
