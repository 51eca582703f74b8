package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"berth/internal/defaults"
	"berth/provisioner"
)

// never is the retry of what is not looked at again by itself.
const never = -time.Second

// verdict is the one place that says what an observation and an error lead to.
func verdict(now time.Time, b *backend, p *place, seen provisioner.Observation, err error) *outcome {
	o := &outcome{place: p, seen: known(seen.Phase), reason: word(seen.Reason), message: seen.Message}
	if err == nil && p.desired == provisioner.PhaseHibernated && o.seen == provisioner.PhaseAbsent {
		o.seen = provisioner.PhaseHibernated // nothing was made yet, and nothing costs nothing
	}
	if !errors.Is(err, provisioner.ErrUnavailable) && !errors.Is(err, errSlow) && !errors.Is(err, errPanic) && !contended(err) {
		b.breaker.answered()
	}
	switch {
	case err == nil && o.seen == p.desired:
		o.met, o.gone, o.retry = true, o.seen == provisioner.PhaseAbsent, never
	case err == nil:
		o.retry = p.look(seen.After)
	case contended(err):
		o.explain("Contended", err)
		o.retry = jitter(defaults.Look)
	case errors.Is(err, provisioner.ErrInvalid) && p.desired == provisioner.PhaseReady:
		o.explain("Invalid", err)
		o.failed, o.givenUp, o.retry = true, true, never
	case errors.Is(err, provisioner.ErrNoCapacity):
		o.explain("NoCapacity", err)
		o.reason = "NoCapacity" // a class that is looked for by its name
		o.waits, o.retry = true, jitter(defaults.FullWait)
	case errors.Is(err, provisioner.ErrUnavailable):
		o.explain("BackendUnavailable", err)
		o.reason = "BackendUnavailable" // so is this one
		wait, open := b.breaker.unanswered(now, clean(o.message))
		if b.others.Load() { // one of them takes it
			wait = min(wait, defaults.UnavailWait)
		}
		o.retry, o.down = jitter(wait), open
	case errors.Is(err, errSlow):
		o.explain("Timeout", err)
		o.failed, o.retry = true, backoff(p.failures)
	default: // stop and delete are never given up either
		o.explain("Failed", err)
		o.failed, o.retry = true, backoff(p.failures)
	}
	o.message = clean(o.message)
	return o
}

// setAside is the outcome of a place that lost one worker too many: it is not called.
func setAside(p *place) *outcome {
	return &outcome{
		place: p, seen: provisioner.PhaseUnknown, state: p.state, config: p.config, reason: "WorkerLost",
		message: fmt.Sprintf("%d workers were lost in a row while they worked on it; it is tried again every %s", p.lost, defaults.LostRetry),
		aside:   true, failed: true, givenUp: true, retry: defaults.LostRetry,
	}
}

// look is when a place that is on its way is looked at again: no sooner than the backend asked for, within reason, and less often once it is
// past its deadline.
func (p *place) look(after time.Duration) time.Duration {
	d := defaults.Look
	if p.overdue {
		d = defaults.LookOverdue
	}
	d = max(min(after, defaults.LookMax), d)
	return d + rand.N(d/4+1)
}

// explain fills in what the backend did not say itself. A class is in the reason, and its name not again before the message.
func (o *outcome) explain(reason string, err error) {
	o.reason = cmp.Or(o.reason, reason)
	text := err.Error()
	for _, class := range []error{provisioner.ErrInvalid, provisioner.ErrNoCapacity, provisioner.ErrUnavailable} {
		text = strings.TrimPrefix(text, class.Error()+": ")
	}
	o.message = cmp.Or(o.message, text)
}

// contended reports whether the database, and not the backend, was in the way: somebody's lock, or a lease that was lost.
func contended(err error) bool { return coded(err, "55P03", "40P01", "40001", "BR001", "23503") }

func known(p provisioner.Phase) provisioner.Phase {
	switch p {
	case provisioner.PhaseAbsent, provisioner.PhasePending, provisioner.PhaseReady, provisioner.PhaseHibernated:
		return p
	}
	return provisioner.PhaseUnknown
}

var wordForm = regexp.MustCompile(`\A[A-Za-z0-9]{1,64}\z`)

// word keeps reasons to one word each: they are for programs.
func word(reason string) string {
	if reason == "" || wordForm.MatchString(reason) {
		return reason
	}
	reason = strings.Map(func(r rune) rune {
		if r < 128 && wordForm.MatchString(string(r)) {
			return r
		}
		return -1
	}, reason)
	return cmp.Or(reason[:min(len(reason), 64)], "Unspecified")
}

// backoff is the pause after a failure, the first being number 0.
func backoff(failures int) time.Duration {
	d := defaults.BackoffBase << min(failures, 20)
	return jitter(min(d, defaults.BackoffMax))
}

// jitter spreads what would happen at one moment.
func jitter(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1)
}
