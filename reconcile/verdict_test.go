package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"berth/internal/defaults"
	"berth/provisioner"
)

// ruling is what a verdict decides, its pause as bounds.
type ruling struct {
	Seen                           provisioner.Phase
	Reason                         string
	Met, Gone, Failed, Hopeless, W bool
	Least, Most                    time.Duration
}

var phases = []provisioner.Phase{"", provisioner.PhaseUnknown, provisioner.PhaseAbsent, provisioner.PhasePending, provisioner.PhaseReady, provisioner.PhaseHibernated, "nonsense"}

var wishes = []provisioner.Phase{provisioner.PhaseReady, provisioner.PhaseHibernated, provisioner.PhaseAbsent}

func around(d time.Duration) (least, most time.Duration) { return d - d/4, d + d/4 + 1 }

// Every class of error, for every wish and whatever was seen. What follows is written here from the contract's words and not from
// the code.
func TestVerdict(t *testing.T) {
	t.Parallel()
	pg := func(code string) error {
		return fmt.Errorf("take a slot: %w", &pgconn.PgError{Code: code, Message: "x"})
	}
	failure := func(r *ruling) { r.Failed = true; r.Least, r.Most = around(4 * defaults.BackoffBase) }
	contended := func(r *ruling) { r.Least, r.Most = around(defaults.Look) }
	classes := map[string]struct {
		reason string
		err    error
		word   string // given as the reason
		then   func(wish provisioner.Phase, r *ruling)
	}{
		"invalid": {"can never work until the intent changes; stop and delete are never given up", fmt.Errorf("size: %w", provisioner.ErrInvalid), "Invalid",
			func(wish provisioner.Phase, r *ruling) {
				if wish == provisioner.PhaseReady {
					r.Failed, r.Hopeless, r.Least, r.Most = true, true, never, never
					return
				}
				r.Reason = "Failed"
				failure(r)
			}},
		"no capacity":             {"waits, and that is no failure", fmt.Errorf("pool: %w", provisioner.ErrNoCapacity), "NoCapacity", func(_ provisioner.Phase, r *ruling) { r.W = true; r.Least, r.Most = around(defaults.FullWait) }},
		"unavailable":             {"counts against the backend", fmt.Errorf("dial: %w", provisioner.ErrUnavailable), "BackendUnavailable", func(_ provisioner.Phase, r *ruling) { r.Least, r.Most = around(defaults.UnavailWait) }},
		"transient":               {"any other is a failure", errors.New("boom"), "Failed", func(_ provisioner.Phase, r *ruling) { failure(r) }},
		"timeout":                 {"a call that did not return", fmt.Errorf("%w: %w", errSlow, context.DeadlineExceeded), "Timeout", func(_ provisioner.Phase, r *ruling) { failure(r) }},
		"panic":                   {"the backend's code", fmt.Errorf("%w: nil map", errPanic), "Failed", func(_ provisioner.Phase, r *ruling) { failure(r) }},
		"lock":                    {"somebody's lock is no failure", pg("55P03"), "Contended", func(_ provisioner.Phase, r *ruling) { contended(r) }},
		"deadlock":                {"nor this", pg("40P01"), "Contended", func(_ provisioner.Phase, r *ruling) { contended(r) }},
		"serialization":           {"nor this", pg("40001"), "Contended", func(_ provisioner.Phase, r *ruling) { contended(r) }},
		"lease lost":              {"the outcome will be fenced", pg("BR001"), "Contended", func(_ provisioner.Phase, r *ruling) { contended(r) }},
		"row gone":                {"the same", pg("23503"), "Contended", func(_ provisioner.Phase, r *ruling) { contended(r) }},
		"other database":          {"a fault like any", pg("42P01"), "Failed", func(_ provisioner.Phase, r *ruling) { failure(r) }},
		"contended, said invalid": {"the database was in the way before anything could be judged", fmt.Errorf("%w: %w", provisioner.ErrInvalid, pg("55P03")), "Contended", func(_ provisioner.Phase, r *ruling) { contended(r) }},
	}
	for name, class := range classes {
		for _, wish := range wishes {
			for _, phase := range phases {
				want := ruling{Seen: known(phase), Reason: class.word}
				class.then(wish, &want)
				check(t, fmt.Sprintf("%s: wished %s, seen %q: %s", name, wish, phase, class.reason), wish, provisioner.Observation{Phase: phase}, class.err, want)
			}
		}
	}
	for _, wish := range wishes {
		for _, phase := range phases {
			want := ruling{Seen: known(phase), Least: defaults.Look, Most: defaults.Look + defaults.Look/4}
			if wish == provisioner.PhaseHibernated && phase == provisioner.PhaseAbsent {
				want.Seen = provisioner.PhaseHibernated
			}
			if want.Seen == wish {
				want.Met, want.Gone, want.Least, want.Most = true, wish == provisioner.PhaseAbsent, never, never
			}
			check(t, fmt.Sprintf("no error: wished %s, seen %q", wish, phase), wish, provisioner.Observation{Phase: phase}, nil, want)
		}
	}
}

func check(t *testing.T, what string, wish provisioner.Phase, seen provisioner.Observation, err error, want ruling) {
	t.Helper()
	b := newBackend("a", &scripted{})
	o := verdict(time.Now(), b, &place{desired: wish, failures: 2}, seen, err)
	got := ruling{Seen: o.seen, Reason: o.reason, Met: o.met, Gone: o.gone, Failed: o.failed, Hopeless: o.givenUp, W: o.waits, Least: want.Least, Most: want.Most}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: -want +got:\n%s", what, diff)
	}
	if o.retry < want.Least || o.retry > want.Most {
		t.Errorf("%s: looked at again after %v, want %v to %v", what, o.retry, want.Least, want.Most)
	}
	if err != nil && o.message == "" {
		t.Errorf("%s: an error is not explained", what)
	}
}

func TestVerdictKeepsWhatTheBackendSaid(t *testing.T) {
	t.Parallel()
	b := newBackend("a", &scripted{})
	said := provisioner.Observation{Phase: provisioner.PhaseReady, Reason: "ResizePending", Message: "the host is full"}
	o := verdict(time.Now(), b, &place{desired: provisioner.PhaseReady}, said, errors.New("boom"))
	require.Equal(t, "ResizePending", o.reason)
	require.Equal(t, "the host is full", o.message)
	o = verdict(time.Now(), b, &place{desired: provisioner.PhaseReady}, said, provisioner.ErrNoCapacity)
	require.Equal(t, "NoCapacity", o.reason, "who waits for room is found by this word")
	require.False(t, o.met)
	require.Equal(t, provisioner.PhaseReady, o.seen, "it keeps what it has")
	o = verdict(time.Now(), b, &place{desired: provisioner.PhaseReady}, provisioner.Observation{}, fmt.Errorf("%w: no room for 4 slots", provisioner.ErrNoCapacity))
	require.Equal(t, "no room for 4 slots", o.message, "the class is the reason, and not said again")
}

// A backend is looked at again no sooner than it asked for.
func TestLook(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason      string
		after       time.Duration
		overdue     bool
		least, most time.Duration
	}{
		"asks for nothing":  {"the worker chooses", 0, false, defaults.Look, defaults.Look * 5 / 4},
		"asks for less":     {"not a storm", time.Millisecond, false, defaults.Look, defaults.Look * 5 / 4},
		"asks for nonsense": {"not a storm", -time.Hour, false, defaults.Look, defaults.Look * 5 / 4},
		"asks for more":     {"no sooner than asked", time.Minute, false, time.Minute, 75 * time.Second},
		"asks for ever":     {"not what no row can hold", math.MaxInt64, false, defaults.LookMax, defaults.LookMax * 5 / 4},
		"past its deadline": {"less often, and still", 0, true, defaults.LookOverdue, defaults.LookOverdue * 5 / 4},
	} {
		for range 100 {
			d := (&place{overdue: c.overdue}).look(c.after)
			require.GreaterOrEqual(t, d, c.least, "%s: %s", name, c.reason)
			require.LessOrEqual(t, d, c.most, "%s: %s", name, c.reason)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 8: 256 * time.Second, 9: defaults.BackoffMax, 20: defaults.BackoffMax,
		64: defaults.BackoffMax, 1 << 30: defaults.BackoffMax,
	} {
		least, most := around(want)
		seen := map[time.Duration]bool{}
		for range 50 {
			d := backoff(failures)
			require.GreaterOrEqual(t, d, least, "%d failures", failures)
			require.LessOrEqual(t, d, most, "%d failures", failures)
			seen[d] = true
		}
		require.Greater(t, len(seen), 25, "those that failed together do not come back together")
	}
}

// The pause after a backend as a whole did not answer grows with how long that lasts, whatever the number of its resources, and
// begins anew once it answered. What is no answer does not end it.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	b := newBackend("a", &scripted{})
	begin := time.Now()
	rule := func(after time.Duration, err error) time.Duration {
		o := verdict(begin.Add(after), b, &place{desired: provisioner.PhaseReady}, provisioner.Observation{}, err)
		require.False(t, o.failed && errors.Is(err, provisioner.ErrUnavailable))
		return o.retry
	}
	between := func(d, want time.Duration) {
		t.Helper()
		least, most := around(want)
		require.GreaterOrEqual(t, d, least)
		require.LessOrEqual(t, d, most)
	}
	for range 100 {
		between(rule(0, provisioner.ErrUnavailable), defaults.UnavailWait)
	}
	between(rule(20*time.Second, provisioner.ErrUnavailable), 10*time.Second)
	between(rule(time.Hour, provisioner.ErrUnavailable), defaults.UnavailMax)
	rule(time.Hour, fmt.Errorf("%w: %w", errSlow, context.DeadlineExceeded))
	rule(time.Hour, fmt.Errorf("%w: x", errPanic))
	between(rule(time.Hour, provisioner.ErrUnavailable), defaults.UnavailMax)
	rule(time.Hour, errors.New("boom"))
	between(rule(time.Hour, provisioner.ErrUnavailable), defaults.UnavailWait)
}

func TestWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "Ready": "Ready", "ImagePullBackOff2": "ImagePullBackOff2", "two words": "twowords", "päss\x00wort\n": "psswort", "!": "Unspecified",
		strings.Repeat("a", 64): strings.Repeat("a", 64), strings.Repeat("a", 65): strings.Repeat("a", 64), strings.Repeat("ü", 100): "Unspecified",
		"Ready\n": "Ready",
	} {
		require.Equal(t, want, word(in), "%q", in)
	}
}
