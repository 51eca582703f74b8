package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/provisioner"
)

// A Deployment is how one stands. Its JSON form is the command line's.
type Deployment struct {
	ID                uuid.UUID  `json:"id"`
	Organization      string     `json:"organization"`
	Project           string     `json:"project"`
	Environment       string     `json:"environment"`
	DesiredState      string     `json:"desired_state"`
	State             string     `json:"state"`
	Reason            string     `json:"reason"`
	Message           string     `json:"message"`
	Slots             int        `json:"slots"`
	Version           string     `json:"version"`
	RuntimeHost       string     `json:"runtime_host"`
	RuntimeAudience   string     `json:"runtime_audience"`
	RuntimeInstanceID string     `json:"runtime_instance_id"`
	CreatedAt         time.Time  `json:"created_at"`
	UpdatedAt         time.Time  `json:"updated_at"`
	Resources         []Resource `json:"resources"`
}

// A Resource is how one place stands. A resource that moves has two. While GivenUpAt is set, the last intent can not be met as it
// stands.
type Resource struct {
	ID                 uuid.UUID       `json:"id"`
	Type               string          `json:"type"`
	Name               string          `json:"name"`
	Provisioner        string          `json:"provisioner"`
	DesiredPhase       string          `json:"desired_phase"`
	Phase              string          `json:"phase"`
	Reason             string          `json:"reason"`
	Message            string          `json:"message"`
	Args               json.RawMessage `json:"args"`
	Config             json.RawMessage `json:"config"`
	Generation         int64           `json:"generation"`
	ObservedGeneration int64           `json:"observed_generation"`
	Failures           int             `json:"failures"`
	FailingSince       *time.Time      `json:"failing_since"`
	GivenUpAt          *time.Time      `json:"given_up_at"`
	RetryAt            *time.Time      `json:"retry_at"`
	DeadlineAt         *time.Time      `json:"deadline_at"`
	PausedAt           *time.Time      `json:"paused_at"` // since when it is paused itself
}

// Get shows one deployment with its resources.
func (c *Client) Get(ctx context.Context, tx dbsqlc.DBTX, id uuid.UUID) (Deployment, error) {
	row, err := c.q.DeploymentGet(ctx, tx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Deployment{}, refuse(ErrNotFound, "deployment "+id.String(), "it does not exist", "see the list of deployments")
	}
	if err != nil {
		return Deployment{}, stored(err, "find a deployment")
	}
	out, err := c.withResources(ctx, tx, []*dbsqlc.DeploymentDetail{row})
	if err != nil {
		return Deployment{}, err
	}
	return out[0], nil
}

// Filter says which deployments a listing shows. Zero values match all.
type Filter struct {
	Organization string
	Project      string
	State        string
	Provisioner  string    // of the runtime
	After        uuid.UUID // the last one of the page before
	Limit        int       // defaults.Page if zero, at most defaults.MaxPage
}

// List shows deployments in the order of their ids, a page at a time.
func (c *Client) List(ctx context.Context, tx dbsqlc.DBTX, f Filter) ([]Deployment, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	p := &dbsqlc.DeploymentListParams{Organization: optional(f.Organization), Project: optional(f.Project), State: optional(f.State), Provisioner: optional(f.Provisioner),
		After: f.After, Most: int32(cmp.Or(f.Limit, defaults.Page))}
	rows, err := c.q.DeploymentList(ctx, tx, p)
	if err != nil {
		return nil, stored(err, "list deployments")
	}
	return c.withResources(ctx, tx, rows)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (f Filter) check() error {
	if err := checkLimit(f.Limit); err != nil {
		return err
	}
	if f.State != "" && !slices.Contains(states, f.State) {
		return refuse(ErrInvalid, "state "+quote(f.State), "there is none of that name", "use one of "+strings.Join(states, ", "))
	}
	return cmp.Or(
		checkFilter("organization", f.Organization, nameForm.MatchString(f.Organization)),
		checkFilter("project", f.Project, nameForm.MatchString(f.Project)),
		checkFilter("provisioner", f.Provisioner, provisioner.ValidName(f.Provisioner) == nil),
	)
}

// checkLimit keeps pages bounded. Zero is defaults.Page.
func checkLimit(limit int) error {
	if limit >= 0 && limit <= defaults.MaxPage {
		return nil
	}
	return refuse(ErrInvalid, fmt.Sprintf("limit %d", limit), "out of range", fmt.Sprintf("use 1 to %d, and what to list after for the next page", defaults.MaxPage))
}

// checkFilter refuses a name that nothing can have; some could not even be asked for.
func checkFilter(kind, name string, possible bool) error {
	if name == "" || possible {
		return nil
	}
	return refuse(ErrInvalid, kind+" "+quote(name), "no name has this form", "see the list of "+kind+"s")
}

func (c *Client) withResources(ctx context.Context, tx dbsqlc.DBTX, rows []*dbsqlc.DeploymentDetail) ([]Deployment, error) {
	out := make([]Deployment, len(rows))
	at := make(map[uuid.UUID]*Deployment, len(rows))
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		out[i] = Deployment{
			ID: r.ID, Organization: r.Organization, Project: r.Project, Environment: r.Environment,
			DesiredState: r.DesiredState, State: r.State, Reason: r.Reason, Message: r.Message, Slots: int(r.Slots), Version: r.Version,
			RuntimeHost: r.RuntimeHost, RuntimeAudience: r.RuntimeAudience, RuntimeInstanceID: r.RuntimeInstanceID,
			CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), Resources: []Resource{},
		}
		at[r.ID], ids[i] = &out[i], r.ID
	}
	places, err := c.q.PlaceList(ctx, tx, ids)
	if err != nil {
		return nil, stored(err, "list places")
	}
	for _, p := range places {
		d := at[*p.DeploymentID]
		d.Resources = append(d.Resources, resource(p))
	}
	return out, nil
}

func resource(p *dbsqlc.PlaceListRow) Resource {
	return Resource{
		ID: p.ID, Type: p.Type, Name: p.Name, Provisioner: p.Provisioner, DesiredPhase: p.DesiredPhase, Phase: p.Phase,
		Reason: p.Reason, Message: p.Message, Args: p.Args, Config: p.Config, Generation: p.Generation, ObservedGeneration: p.ObservedGeneration,
		Failures: int(p.Failures), FailingSince: utc(p.FailingSince), GivenUpAt: utc(p.GivenUpAt), RetryAt: utc(p.RetryAt), DeadlineAt: utc(p.DeadlineAt), PausedAt: utc(p.PausedAt),
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
