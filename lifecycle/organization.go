package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/provisioner"
)

// An Organization owns projects and may name the provisioner of their new deployments.
type Organization struct {
	ID                 uuid.UUID `json:"id"`
	Name               string    `json:"name"`
	DefaultProvisioner string    `json:"default_provisioner"` // empty: none
	CreatedAt          time.Time `json:"created_at"`
}

func organization(o *dbsqlc.Organization) Organization {
	out := Organization{ID: o.ID, Name: o.Name, CreatedAt: o.CreatedAt.UTC()}
	if o.DefaultProvisioner != nil {
		out.DefaultProvisioner = *o.DefaultProvisioner
	}
	return out
}

// CreateOrganization makes an organization. A name that exists, in any case, is a conflict.
func (c *Client) CreateOrganization(ctx context.Context, tx dbsqlc.DBTX, name, defaultProvisioner string) (Organization, error) {
	if err := checkName("organization", name); err != nil {
		return Organization{}, err
	}
	p := &dbsqlc.OrganizationInsertParams{Name: name}
	if defaultProvisioner != "" {
		if err := c.checkProvisioner(ctx, tx, defaultProvisioner); err != nil {
			return Organization{}, err
		}
		p.DefaultProvisioner = &defaultProvisioner
	}
	o, err := c.q.OrganizationInsert(ctx, tx, p)
	if errors.Is(err, pgx.ErrNoRows) {
		return Organization{}, refuse(ErrConflict, fmt.Sprintf("organization %q", name), "it exists", "use it, or choose another name")
	}
	if err != nil {
		return Organization{}, stored(err, "create an organization")
	}
	return organization(o), nil
}

// checkProvisioner refuses one that can not hold runtimes.
func (c *Client) checkProvisioner(ctx context.Context, tx dbsqlc.DBTX, name string) error {
	ch, err := c.choice(ctx, tx)
	if err != nil {
		return err
	}
	return ch.check(name, string(provisioner.Runtime))
}

// OrganizationByName finds one, whatever the case of the name.
func (c *Client) OrganizationByName(ctx context.Context, tx dbsqlc.DBTX, name string) (Organization, error) {
	o, err := (*dbsqlc.Organization)(nil), pgx.ErrNoRows
	if nameForm.MatchString(name) { // no other name exists, and some could not even be asked for
		o, err = c.q.OrganizationByName(ctx, tx, name)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return Organization{}, refuse(ErrNotFound, "organization "+quote(name), "it does not exist", "see the list of organizations")
	}
	if err != nil {
		return Organization{}, stored(err, "find an organization")
	}
	return organization(o), nil
}

// An OrganizationChange is what an update asks for. What is nil stays as it is.
type OrganizationChange struct {
	DefaultProvisioner *string // empty: none of its own
}

// UpdateOrganization changes what new deployments of an organization start from. What exists stays where it is.
func (c *Client) UpdateOrganization(ctx context.Context, tx dbsqlc.DBTX, id uuid.UUID, change OrganizationChange) (Organization, error) {
	if change.DefaultProvisioner == nil {
		return Organization{}, refuse(ErrInvalid, "update", "it changes nothing", "name a default provisioner, or an empty one for none")
	}
	if *change.DefaultProvisioner != "" {
		if err := c.checkProvisioner(ctx, tx, *change.DefaultProvisioner); err != nil {
			return Organization{}, err
		}
	}
	o, err := c.q.OrganizationUpdate(ctx, tx, &dbsqlc.OrganizationUpdateParams{ID: id, DefaultProvisioner: *change.DefaultProvisioner})
	if errors.Is(err, pgx.ErrNoRows) {
		return Organization{}, refuse(ErrNotFound, "organization "+id.String(), "it does not exist", "see the list of organizations")
	}
	if err != nil {
		return Organization{}, stored(err, "update an organization")
	}
	return organization(o), nil
}

// DeleteOrganization lets an organization go, its projects included. While it has deployments, being deleted ones among them, that
// is a conflict. What is gone already counts as done.
func (c *Client) DeleteOrganization(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	name, err := c.q.OrganizationLockDelete(ctx, tx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return stored(err, "lock an organization")
	}
	projects, err := c.q.ProjectLockDelete(ctx, tx, id)
	if err != nil {
		return stored(err, "lock the projects of an organization")
	}
	if err := c.deleteProjects(ctx, tx, fmt.Sprintf("organization %q", name), projects); err != nil {
		return err
	}
	return stored(c.q.OrganizationDelete(ctx, tx, id), "delete an organization")
}

// Organizations lists some by name, a page at a time: so many, or defaults.Page if zero, after the one named.
func (c *Client) Organizations(ctx context.Context, tx dbsqlc.DBTX, after string, limit int) ([]Organization, error) {
	err := cmp.Or(checkLimit(limit), checkFilter("organization", after, nameForm.MatchString(after)))
	if err != nil {
		return nil, err
	}
	rows, err := c.q.OrganizationList(ctx, tx, &dbsqlc.OrganizationListParams{After: after, Most: int32(cmp.Or(limit, defaults.Page))})
	if err != nil {
		return nil, stored(err, "list organizations")
	}
	out := make([]Organization, len(rows))
	for i, o := range rows {
		out[i] = organization(o)
	}
	return out, nil
}
