package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
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

// Projects lists all, by organization and name.
func (c *Client) Projects(ctx context.Context, tx dbsqlc.DBTX) ([]Project, error) {
	rows, err := c.q.ProjectList(ctx, tx)
	if err != nil {
		return nil, stored(err, "list projects")
	}
	out := make([]Project, len(rows))
	for i, r := range rows {
		if out[i], err = project(&r.Project, r.Organization); err != nil {
			return nil, err
		}
	}
	return out, nil
}
