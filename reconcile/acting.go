package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/provisioner"
)

// Queues are what this process works of the queue. Both calls may be repeated. Leave waits until no job of it is under way, and may
// be called again if that took longer than ctx allowed.
type Queues interface {
	Work(provisioner string) error
	Leave(ctx context.Context, provisioner string) error
}

// standing is how this process stands to a provisioner that it has. Its configuration acts or it does not; only the claim, in the
// database, is sure of it. But for acts it is the matter of the one goroutine that looks.
type standing struct {
	digest  string // of the configuration here
	acts    atomic.Bool
	others  atomic.Bool // another worker has it too, and the backend answers that one
	since   time.Time   // that the configuration acts which was brought into force here; zero: that did not work yet
	unsure  bool        // whether it was, before or after another one came to act
	end     context.CancelFunc
	working atomic.Bool // its queue
	leaving bool        // its queue was left, but runs are under way
	waits   bool        // that it does was said
	said    string      // what is the matter
}

// complain logs an error once for as long as it stays the same.
func (b *backend) complain(log *slog.Logger, err error) {
	text := ""
	if err != nil {
		text = said{err}.Error()
	}
	if text != "" && text != b.said {
		log.Warn("which configuration acts", slog.String("provisioner", b.name), slog.String("error", text))
	}
	b.said = text
}

// lookAll is the first look at all provisioners, side by side. One that can not begin keeps no other from it: it is looked at again.
func (e *Engine) lookAll(ctx context.Context) {
	var wg sync.WaitGroup
	for _, b := range e.backends {
		wg.Go(func() { b.complain(e.log, e.look(ctx, b)) })
	}
	wg.Wait()
}

// look has the configuration here begin to act, or cease to, as the database says. One that is silent is succeeded.
func (e *Engine) look(ctx context.Context, b *backend) error {
	c, err := e.acting(ctx, b)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // not registered: there is nothing to act on
	}
	if err != nil {
		return err
	}
	b.others.Store(c.Answered)
	if c.Digest != b.digest && (c.Silent || e.alone) {
		if c, err = e.succeed(ctx, b, c); err != nil {
			return err
		}
	}
	if c.Digest != b.digest {
		e.cease(b)
		_, err := e.lastWord(ctx, b)
		return errors.Join(err, e.follow(ctx, b))
	}
	if !b.acts.Load() || !b.since.Equal(c.ActsSince) {
		if err := e.begin(ctx, b, c); err != nil {
			return err
		}
	}
	if err := e.follow(ctx, b); err != nil || !b.acts.Load() {
		return err
	}
	if c.Rolling {
		if err := e.roll(ctx, b); err != nil {
			return err
		}
	}
	return e.succeedDefault(ctx, b)
}

// acting is which configuration of a provisioner acts, and how others stand to it.
func (e *Engine) acting(ctx context.Context, b *backend) (*dbsqlc.ConfigurationActingRow, error) {
	c, err := e.q.ConfigurationActing(ctx, e.pool, &dbsqlc.ConfigurationActingParams{Name: b.name, Silence: e.silence, Worker: e.life.current()})
	if err != nil {
		return nil, fmt.Errorf("look which configuration of %q acts: %w", b.name, err)
	}
	return c, nil
}

// succeed hands a provisioner over to the configuration here, if its check passes, and returns how it stands then. After a loss of
// connection those whose configuration acts get time to come back.
func (e *Engine) succeed(ctx context.Context, b *backend, c *dbsqlc.ConfigurationActingRow) (*dbsqlc.ConfigurationActingRow, error) {
	if c.Digest != "" && !e.alone { // nobody has acted with a digest yet: there is nobody to come back, and nothing to be worse than
		if !e.life.mayTakeOver() {
			return c, nil
		}
		if err := e.check(ctx, b); err != nil {
			return c, fmt.Errorf("the configuration of %q here does not act, because its check did not pass: %w", b.name, err)
		}
	}
	done, err := e.lifecycle.HandOver(ctx, e.pool, b.name, c.Digest, b.digest, e.silence, e.alone)
	if err != nil {
		return c, err
	}
	if done {
		e.log.Info("the configuration of this worker succeeds another", slog.String("provisioner", b.name), slog.String("digest", b.digest), slog.String("before", c.Digest))
	}
	after, err := e.acting(ctx, b)
	if err != nil {
		return c, err
	}
	return after, nil
}

func (e *Engine) check(ctx context.Context, b *backend) error {
	return e.bounded(ctx, b, func(ctx context.Context) error {
		_, err := b.Check(ctx)
		return err
	})
}

// bounded is one call to a backend about itself. A panic is an error of it.
func (e *Engine) bounded(ctx context.Context, b *backend, do func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			_, err = e.panicked(b, "", v)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, e.callTimeout, errSlow)
	defer cancel()
	return do(ctx)
}

// activate brings the configuration here into force.
func (e *Engine) activate(ctx context.Context, b *backend) error {
	if a, ok := b.Provisioner.(provisioner.Activator); ok {
		if err := e.bounded(ctx, b, a.Activate); err != nil {
			return fmt.Errorf("bring the configuration of provisioner %q into force: %w", b.name, said{err})
		}
	}
	if err := e.lifecycle.DescribeProvisioner(ctx, e.pool, b.name, b.digest, b.Info()); err != nil {
		return err
	}
	// What could not be met as things stood may be met now.
	ids, err := e.q.PlaceHopeless(ctx, e.pool, &dbsqlc.PlaceHopelessParams{Provisioner: b.name, MaxLost: defaults.MaxLost})
	if err != nil {
		return fmt.Errorf("look for resources that were given up at %q: %w", b.name, err)
	}
	b.changed.add(ids...)
	return nil
}

// begin brings the configuration here into force, then has it watched. It is done anew when another one acted in between.
func (e *Engine) begin(ctx context.Context, b *backend, c *dbsqlc.ConfigurationActingRow) error {
	b.unsure = true
	if err := e.activate(ctx, b); err != nil {
		return err
	}
	if late, err := e.lastWord(ctx, b); err != nil || late {
		return err
	}
	b.since, b.waits = c.ActsSince, false
	if b.acts.Swap(true) {
		return nil
	}
	e.log.Info("the configuration of this worker acts", slog.String("provisioner", b.name), slog.String("digest", b.digest))
	var acting context.Context
	acting, b.end = context.WithCancel(e.looping)
	e.loops.Go(func() { e.wakeChanged(acting, b) })
	e.loops.Go(func() { e.mind(acting, b) })
	if w, ok := b.Provisioner.(provisioner.Watcher); ok {
		e.loops.Go(func() { e.watch(acting, b, w) })
	}
	if !c.Rolling {
		return nil
	}
	done, total, err := e.rollout(ctx, b)
	if total > 0 {
		e.log.Info("resources are brought to the configuration that acts", slog.String("provisioner", b.name), slog.String("digest", b.digest),
			slog.Int64("done", done), slog.Int64("total", total))
	}
	return err
}

// lastWord leaves it to another configuration that acts by now, if the one here was brought into force meanwhile, or may have been: a
// call that failed may have done so all the same. It reports whether another one acts.
func (e *Engine) lastWord(ctx context.Context, b *backend) (late bool, err error) {
	if !b.unsure {
		return false, nil
	}
	n, err := e.q.ConfigurationDisturbed(ctx, e.pool, &dbsqlc.ConfigurationDisturbedParams{Name: b.name, Digest: b.digest})
	if err != nil {
		return false, fmt.Errorf("look which configuration of %q acts: %w", b.name, err)
	}
	b.unsure = false
	if n > 0 {
		e.cease(b)
	}
	return n > 0, nil
}

// cease ends what the configuration here does, if it does anything. Runs that are under way end under their fences.
func (e *Engine) cease(b *backend) {
	if b.acts.Swap(false) {
		b.end()
	}
	if !b.waits {
		b.waits = true
		e.log.Warn("the configuration of this worker waits, because another one acts", slog.String("provisioner", b.name), slog.String("digest", b.digest))
	}
}

// follow works the queue of a provisioner while the configuration here acts. Where only this process can not reach the backend it
// leaves the queue to the others: half of what it takes from them would be turned away.
func (e *Engine) follow(ctx context.Context, b *backend) error {
	if e.queues == nil {
		return nil
	}
	works := b.acts.Load() && (!b.breaker.isOpen() || !b.others.Load())
	if b.working.Load() && (!works || b.leaving) {
		b.leaving = true
		leaving, cancel := context.WithTimeout(ctx, e.lookEvery)
		defer cancel()
		if err := e.queues.Leave(leaving, b.name); errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return nil // runs are under way
		} else if err != nil {
			return err
		}
		b.working.Store(false)
		b.leaving = false
	}
	if works && !b.working.Load() {
		if err := e.queues.Work(b.name); err != nil {
			return err
		}
		b.working.Store(true)
	}
	return nil
}

// succeedDefault hands the default over to the one that this process has, once that acts.
func (e *Engine) succeedDefault(ctx context.Context, b *backend) error {
	if b.name != e.life.preferred || !e.life.mayTakeOver() {
		return nil
	}
	silent, err := e.q.ProvisionerDefaultSilent(ctx, e.pool, &dbsqlc.ProvisionerDefaultSilentParams{Name: b.name, Silence: e.silence})
	if err != nil {
		return fmt.Errorf("look for the default provisioner: %w", err)
	}
	if !silent {
		return nil
	}
	var done bool
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) (err error) {
		done, err = e.lifecycle.HandOverDefault(ctx, tx, b.name, e.silence, false)
		return err
	})
	if done && err == nil {
		e.log.Info("the default provisioner is another one now", slog.String("provisioner", b.name))
	}
	return err
}

// idle are the provisioners that this process has and another configuration of which acts.
func (e *Engine) idle() []string {
	names := []string{}
	for name, b := range e.backends {
		if !b.acts.Load() {
			names = append(names, name)
		}
	}
	return names
}

// shout says which provisioners are missing, with what is there, when it starts and each hour.
func (e *Engine) shout(ctx context.Context) error {
	if now := e.life.now(); now.Sub(e.shouted) < defaults.Shout {
		return nil
	} else {
		e.shouted = now
	}
	rows, err := e.q.ProvisionerMissing(ctx, e.pool, defaults.MissingFor)
	if err != nil {
		return fmt.Errorf("look for missing provisioners: %w", err)
	}
	for _, r := range rows {
		e.log.Warn("a provisioner is missing: no live worker has it configured, and its resources wait",
			slog.String("provisioner", r.Name), slog.Int64("resources", r.Places))
	}
	return nil
}
