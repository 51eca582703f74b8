package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"berth/internal/terminal"
	"berth/lifecycle"
)

type deploymentShow struct {
	output
	ID id `arg:"" name:"ID" help:"The id of the deployment."`
}

// Run shows the deployment.
func (c *deploymentShow) Run(ctx context.Context, a *app) error {
	return a.reading(ctx, func(ad *admin) error {
		d, err := ad.Get(ctx, ad.pool, c.ID.UUID)
		if err != nil {
			return err
		}
		return c.write(a.stdout, d, deploymentText(d))
	})
}

// deploymentText is a deployment in words.
func deploymentText(d lifecycle.Deployment) func() io.WriterTo {
	return func() io.WriterTo {
		f := &terminal.Fields{}
		f.Add("deployment", d.ID.String())
		f.Add("project", d.Organization+"/"+d.Project)
		f.Add("environment", d.Environment)
		f.Add("state", wished(d.State, d.DesiredState))
		f.Add("since", stamp(&d.UpdatedAt))
		f.Add("reason", d.Reason)
		f.Add("message", d.Message)
		f.Add("slots", strconv.Itoa(d.Slots))
		f.Add("version", d.Version)
		f.Add("runtime host", d.RuntimeHost)
		f.Add("audience", d.RuntimeAudience)
		f.Add("instance", d.RuntimeInstanceID)
		f.Add("created", stamp(&d.CreatedAt))
		parts := several{f}
		for _, r := range d.Resources {
			parts = append(parts, text("\n"), resourceText(r))
		}
		return parts
	}
}

func resourceText(r lifecycle.Resource) io.WriterTo {
	f := &terminal.Fields{}
	what := r.Type
	if r.Name != "" {
		what += "/" + r.Name
	}
	f.Add("resource", what+" at "+r.Provisioner)
	f.Add("id", r.ID.String())
	f.Add("phase", wished(r.Phase, r.DesiredPhase))
	f.Add("reason", r.Reason)
	f.Add("message", r.Message)
	switch {
	case r.Failures == 1:
		f.Add("attempt", "failed once, at "+stamp(r.FailingSince))
	case r.Failures > 1:
		f.Add("attempt", fmt.Sprintf("failed %d times in a row, since %s", r.Failures, stamp(r.FailingSince)))
	}
	f.Add("next try", stamp(r.RetryAt))
	f.Add("deadline", stamp(r.DeadlineAt))
	if r.ObservedGeneration < r.Generation {
		f.Add("generation", fmt.Sprintf("%d of %d", r.ObservedGeneration, r.Generation))
	}
	f.Add("asked for", string(r.Args))
	return f
}

// wished is what is, with what is wished where that is something else.
func wished(is, wish string) string {
	if is == wish {
		return is
	}
	return is + ", wished " + wish
}
