package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"

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
		return ad.showDeployment(ctx, a, c.output, d)
	})
}

func (ad *admin) showDeployment(ctx context.Context, a *app, out output, d lifecycle.Deployment) error {
	var at provisioners
	if out.Output != "json" {
		at = ad.provisionersNow(ctx)
	}
	return out.write(a.stdout, d, func() io.WriterTo { return deploymentText(d, at, time.Now()) })
}

// deploymentText is a deployment in words.
func deploymentText(d lifecycle.Deployment, at provisioners, now time.Time) io.WriterTo {
	f := &terminal.Fields{}
	f.Add("deployment", d.ID.String())
	f.Add("project", d.Organization+"/"+d.Project)
	f.Add("environment", d.Environment)
	f.Add("state", wished(d.State, d.DesiredState))
	f.Add("since", stamp(&d.UpdatedAt))
	f.Add("slots", strconv.Itoa(d.Slots))
	f.Add("version", d.Version)
	f.Add("runtime host", d.RuntimeHost)
	f.Add("audience", d.RuntimeAudience)
	f.Add("instance", d.RuntimeInstanceID)
	f.Add("created", stamp(&d.CreatedAt))
	parts := several{f}
	for _, r := range d.Resources {
		parts = append(parts, text("\n"), resourceText(r, &d.ID, at, now))
	}
	return parts
}

// resourceText is a place in words: what is the matter, since when, which attempt, when the next one is, and what a person can do.
func resourceText(r lifecycle.Resource, deployment *uuid.UUID, at provisioners, now time.Time) io.WriterTo {
	m := at.of(r, deployment, now)
	f := &terminal.Fields{}
	f.Add("resource", named(r)+" at "+r.Provisioner)
	f.Add("id", r.ID.String())
	f.Add("phase", wished(r.Phase, r.DesiredPhase))
	f.Add("matter", m.words)
	f.Add("reason", r.Reason)
	f.Add("message", r.Message)
	f.Add("given up", stamp(r.GivenUpAt))
	switch {
	case r.Failures == 1:
		f.Add("attempt", "failed once, at "+stamp(r.FailingSince))
	case r.Failures > 1:
		f.Add("attempt", fmt.Sprintf("failed %d times in a row, since %s", r.Failures, stamp(r.FailingSince)))
	}
	next, deadline := nextTry(r), stamp(r.DeadlineAt)
	if at.pause(r) != "" { // the times in the row count again once it has ended
		if r.RetryAt != nil {
			next = "none before it is resumed"
		}
		if r.DeadlineAt != nil {
			deadline = "stands still until it is resumed"
		}
	}
	f.Add("next try", next)
	f.Add("what to do", m.remedy)
	f.Add("deadline", deadline)
	if r.ObservedGeneration < r.Generation {
		f.Add("generation", fmt.Sprintf("%d of %d", r.ObservedGeneration, r.Generation))
	}
	f.Add("asked for", string(r.Args))
	return f
}

// nextTry is when a resource is looked at again by itself.
func nextTry(r lifecycle.Resource) string {
	if r.RetryAt == nil && r.GivenUpAt != nil {
		return "none by itself"
	}
	return stamp(r.RetryAt)
}

// wished is what is, with what is wished where that is something else.
func wished(is, wish string) string {
	if is == wish {
		return is
	}
	return is + ", wished " + wish
}
