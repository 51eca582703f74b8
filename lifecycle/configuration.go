package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/provisioner"
)

// A Configuration of a provisioner, as workers announce it. One of them acts.
type Configuration struct {
	Provisioner string
	Digest      string // empty: of workers that announce none
	Acts        bool
	Workers     int64 // live ones that have it
}

// Configurations lists those that live workers have of each of these provisioners, the one that acts first. See [Known] for the one
// that acts, whoever has it.
func (c *Client) Configurations(ctx context.Context, tx dbsqlc.DBTX, names ...string) ([]Configuration, error) {
	rows, err := c.q.ConfigurationList(ctx, tx, append([]string{}, names...))
	if err != nil {
		return nil, stored(err, "list configurations")
	}
	out := make([]Configuration, len(rows))
	for i, r := range rows {
		out[i] = Configuration{r.Name, r.Digest, r.Acts, r.Workers}
	}
	return out, nil
}

// Behind counts, of each of these provisioners, the resources that were last driven under another configuration than the one that
// acts. It reads all of them: ask of those that are [Known.Rolling].
func (c *Client) Behind(ctx context.Context, tx dbsqlc.DBTX, names ...string) (map[string]int64, error) {
	out := map[string]int64{}
	if len(names) == 0 {
		return out, nil
	}
	rows, err := c.q.ConfigurationBehind(ctx, tx, names)
	for _, r := range rows {
		out[r.Provisioner] = r.Behind
	}
	return out, stored(err, "count resources of other configurations")
}

// HandOver has a configuration that a live worker announces act in place of another. Unless it is to be at once, it happens only
// when no live worker has announced that one for so long. It reports whether it happened.
func (c *Client) HandOver(ctx context.Context, tx dbsqlc.DBTX, name, from, to string, silence time.Duration, atOnce bool) (bool, error) {
	n, err := c.q.ConfigurationHandOver(ctx, tx, &dbsqlc.ConfigurationHandOverParams{Name: name, Acting: from, Digest: to, Silence: silence, AtOnce: atOnce})
	return n > 0, stored(err, "hand over provisioner "+quote(name))
}

// Activate has a configuration that a live worker announces act now, whatever acts: an operator says so. prefix begins its digest,
// and may be empty where there is only one to choose, unless another one came to act just now: whoever asks twice, or after a
// colleague, would have the old one back. It returns the digest.
func (c *Client) Activate(ctx context.Context, tx dbsqlc.DBTX, name, prefix string) (string, error) {
	what := "provisioner " + quote(name)
	acting, err := c.q.ConfigurationActing(ctx, tx, &dbsqlc.ConfigurationActingParams{Name: name, Silence: defaults.Silence})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", refuse(ErrNotFound, what, "it is not registered", "start a worker that has it configured")
	}
	if err != nil {
		return "", stored(err, "look which configuration acts")
	}
	all, err := c.Configurations(ctx, tx, name)
	if err != nil {
		return "", err
	}
	var waiting []string
	for _, x := range all {
		if x.Digest != acting.Digest && strings.HasPrefix(x.Digest, prefix) {
			waiting = append(waiting, x.Digest)
		}
	}
	switch {
	case len(waiting) == 0 && prefix != "":
		return "", refuse(ErrNotFound, what, "no live worker has a waiting configuration whose digest begins with "+quote(prefix), "choose one that worker provisioner list shows as waiting")
	case len(waiting) == 0:
		return "", refuse(ErrConflict, what, "no live worker has another configuration than the one that acts", "start a worker with the new one first")
	case len(waiting) > 1:
		return "", refuse(ErrConflict, what, fmt.Sprintf("%d configurations wait: %s", len(waiting), strings.Join(waiting, ", ")), "name one by the beginning of its digest")
	}
	if prefix == "" && acting.Digest != "" && acting.Fresh {
		return "", refuse(ErrConflict, what, "configuration "+acting.Digest+" came to act only just now", "nothing, if that is the one you want; else name the other one by the beginning of its digest, "+waiting[0])
	}
	done, err := c.HandOver(ctx, tx, name, acting.Digest, waiting[0], 0, true)
	if err == nil && !done {
		err = refuse(ErrConflict, what, "another configuration came to act at this moment, or its last worker went", "look again")
	}
	return waiting[0], err
}

// HandOverDefault makes a provisioner the default. Unless it is to be at once, it happens only when no live worker has had the
// default that there is for so long.
func (c *Client) HandOverDefault(ctx context.Context, tx pgx.Tx, name string, silence time.Duration, atOnce bool) (bool, error) {
	if err := c.q.ProvisionerRegistering(ctx, tx, registering); err != nil {
		return false, stored(err, "wait to set the default provisioner")
	}
	if !atOnce {
		silent, err := c.q.ProvisionerDefaultSilent(ctx, tx, &dbsqlc.ProvisionerDefaultSilentParams{Name: name, Silence: silence})
		if err != nil || !silent {
			return false, stored(err, "look for the default provisioner")
		}
	}
	if err := c.q.ProvisionerDefaultClear(ctx, tx, name); err != nil {
		return false, stored(err, "clear the default provisioner")
	}
	n, err := c.q.ProvisionerDefaultSet(ctx, tx, name)
	return n > 0, stored(err, "set the default provisioner")
}

// ActivateDefault makes a provisioner the default now: an operator says so. A live worker has to have it as its default.
func (c *Client) ActivateDefault(ctx context.Context, tx pgx.Tx, name string) error {
	announced, err := c.q.ProvisionerDefaultAnnounced(ctx, tx, name)
	if err != nil {
		return stored(err, "look for workers")
	}
	if !announced {
		return refuse(ErrConflict, "default provisioner "+quote(name), "no live worker has it as its default", "start a worker that is configured so first")
	}
	_, err = c.HandOverDefault(ctx, tx, name, 0, true)
	return err
}

// DescribeProvisioner writes what the configuration that acts says of itself. Nothing happens if another one acts.
func (c *Client) DescribeProvisioner(ctx context.Context, tx dbsqlc.DBTX, name, digest string, info provisioner.Info) error {
	return stored(c.q.ProvisionerDescribe(ctx, tx, &dbsqlc.ProvisionerDescribeParams{
		Name: name, Digest: digest, Supports: supports(info), Timeout: cmp.Or(info.Timeout, defaults.Timeout),
	}), "describe provisioner "+quote(name))
}

// supports is how the types of a provisioner are handed to a statement.
func supports(i provisioner.Info) string {
	types := make([]string, len(i.Types))
	for n, t := range i.Types {
		types[n] = string(t)
	}
	return strings.Join(types, ",")
}
