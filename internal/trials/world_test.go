package trials

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"berth/provisioner"
)

// worldSQL is an outside world that outlives the workers: it is beside their tables, and honours fences as a pool of slots does.
// Nothing keeps a resource from being made twice but the order of what is done.
const worldSQL = `
CREATE SCHEMA trial;
CREATE TABLE trial.objects (
    key         uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,
    id          uuid NOT NULL,
    provisioner text NOT NULL,
    phase       text NOT NULL
);
CREATE INDEX ON trial.objects (id);
CREATE FUNCTION trial.fence(p text, i uuid, f uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(i, 99));
    PERFORM FROM berth.provisioner_resources x WHERE x.id = i AND x.provisioner = p AND x.fence = f FOR KEY SHARE;
    IF NOT FOUND THEN RAISE EXCEPTION 'the lease on % is lost', i USING ERRCODE = 'BR001'; END IF;
END $$;
CREATE FUNCTION trial.look(p text, i uuid, f uuid) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM trial.fence(p, i, f); -- and whatever was begun under an earlier fence is done, or never will be
    RETURN (SELECT coalesce(min(o.phase), '') FROM trial.objects o WHERE o.id = i AND o.provisioner = p);
END $$;
CREATE FUNCTION trial.make(p text, i uuid, f uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM trial.fence(p, i, f);
    INSERT INTO trial.objects (id, provisioner, phase) VALUES (i, p, 'made');
END $$;
CREATE FUNCTION trial.turn(p text, i uuid, f uuid, phase text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM trial.fence(p, i, f);
    UPDATE trial.objects o SET phase = turn.phase WHERE o.id = i AND o.provisioner = p;
END $$;
CREATE FUNCTION trial.remove(p text, i uuid, f uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM trial.fence(p, i, f);
    DELETE FROM trial.objects o WHERE o.id = i AND o.provisioner = p;
END $$;`

// trick is the annotation that says how the world treats a resource.
const trick = "trial"

// What an annotation may say.
const (
	kills = "kills" // the worker dies of it
	hangs = "hangs" // no answer until the call ends
)

// A world is a backend whose steps take their time, and one of several statements each.
type world struct {
	pool  *pgxpool.Pool
	name  string
	delay time.Duration // of every step
}

func (w *world) Info() provisioner.Info {
	return provisioner.Info{Types: []provisioner.ResourceType{provisioner.Runtime}}
}

func (w *world) Reconcile(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	if err := w.trick(ctx, r); err != nil {
		return provisioner.Observation{}, err
	}
	phase, err := w.phase(ctx, r)
	if err != nil {
		return provisioner.Observation{}, err
	}
	if phase == "" {
		if err := w.do(ctx, `SELECT trial.make($1, $2, $3)`, w.name, r.ID, r.Fence); err != nil {
			return provisioner.Observation{}, err
		}
	}
	if phase != "ready" {
		if err := w.turn(ctx, r, "ready"); err != nil {
			return provisioner.Observation{}, err
		}
	}
	r.State = provisioner.Encode(map[string]string{"seen": "ready"})
	return provisioner.Observation{Phase: provisioner.PhaseReady}, nil
}

func (w *world) Hibernate(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	phase, err := w.phase(ctx, r)
	if err == nil && phase != "" && phase != "hibernated" {
		err = w.turn(ctx, r, "hibernated")
	}
	if err != nil {
		return provisioner.Observation{}, err
	}
	return provisioner.Observation{Phase: provisioner.PhaseHibernated}, nil
}

func (w *world) Deprovision(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	phase, err := w.phase(ctx, r)
	if err == nil && phase != "" {
		if err = w.turn(ctx, r, "going"); err == nil {
			err = w.do(ctx, `SELECT trial.remove($1, $2, $3)`, w.name, r.ID, r.Fence)
		}
	}
	if err != nil {
		return provisioner.Observation{}, err
	}
	return provisioner.Observation{Phase: provisioner.PhaseAbsent}, nil
}

func (w *world) Observe(context.Context, []provisioner.Resource) ([]provisioner.Observation, error) {
	return nil, provisioner.ErrUnavailable
}

func (w *world) Check(context.Context) (provisioner.Capacity, error) {
	return provisioner.Capacity{}, nil
}

func (w *world) phase(ctx context.Context, r *provisioner.Resource) (phase string, err error) {
	err = w.pool.QueryRow(ctx, `SELECT trial.look($1, $2, $3)`, w.name, r.ID, r.Fence).Scan(&phase)
	return phase, err
}

// turn takes its time before the second statement of a step.
func (w *world) turn(ctx context.Context, r *provisioner.Resource, phase string) error {
	select {
	case <-time.After(w.delay):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return w.do(ctx, `SELECT trial.turn($1, $2, $3, $4)`, w.name, r.ID, r.Fence, phase)
}

func (w *world) do(ctx context.Context, sql string, args ...any) error {
	_, err := w.pool.Exec(ctx, sql, args...)
	return err
}

func (w *world) trick(ctx context.Context, r *provisioner.Resource) error {
	var args provisioner.RuntimeArgs
	if err := json.Unmarshal(r.Args, &args); err != nil {
		return err
	}
	switch args.Annotations[trick] {
	case kills:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case hangs:
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}
