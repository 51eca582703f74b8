package provisionertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"berth/provisioner"
)

// A Harness gives the suite backends to try.
type Harness struct {
	// New makes a fresh backend that holds nothing. It is called once per case, and cases run side by side.
	New func(t *testing.T) *Backend
	// Patience is how long a call may take before it is held to be hanging; 0 is 10 s.
	Patience time.Duration
	// Sparing has each exchange fail once, and the call or the process end at it once, in one of their manners in turn; of those of one
	// name the first and the last. It is for backends that take long, and whose calls look at the same thing again and again.
	Sparing bool
}

// A Backend is one backend, empty at first, and the means to look at it and to trouble it.
type Backend struct {
	// Name and Open are the provisioner to try. Each call of Open makes it as a new process would: nothing in memory is
	// shared between two of them.
	Name string
	Open func() provisioner.Provisioner
	// OtherName and OpenOther are another provisioner of the same kind that uses the same backend.
	OtherName string
	OpenOther func() provisioner.Provisioner

	Type    provisioner.ResourceType
	Args    json.RawMessage   // of a small resource; it is an object
	Larger  json.RawMessage   // the same, larger; nil if nothing can be resized
	Invalid []json.RawMessage // each of them can never work
	Room    int               // so many small resources fit beside each other, at least 4; 0 is 16

	// Claim does what the engine does before it calls: it makes r.Fence, a new one, the current fence of this resource at the
	// provisioner of this name, for instance in its row. nil if nothing outside knows of fences.
	Claim func(name string, r *provisioner.Resource)
	// FencedByContext is for a backend that cannot compare fences: a call that stood still then finds its context over when it
	// goes on, as the engine sees to, while the very exchange at which it stood still goes through.
	FencedByContext bool

	// Inspect lists what exists outside that the provisioner of this name made for this resource, one line per object, sorted:
	// what it is and how large, nothing that differs between two resources for which the same was asked.
	Inspect func(name string, id uuid.UUID) []string
	// Data identifies the data of the resource, to prove that it is kept; nil if it has none.
	Data func(name string, id uuid.UUID) string
	// Steps is where every exchange with the outside goes through.
	Steps *Steps
	// Elapse lets time pass outside, so that what is on its way may arrive; nil if calls alone bring it about.
	Elapse func()
	// Calls is how often a call may be repeated until it has arrived; 0 is 20.
	Calls int

	// Fill takes up all room, so that nothing fits and nothing can grow, until release is called. nil if there is always room.
	Fill func() (release func())
	// Outage makes the backend as a whole not answer until restore is called. nil lets every exchange fail instead.
	Outage func() (restore func())
	// Lose removes something of what the resource needs behind the provisioner's back; nil if that cannot happen.
	Lose func(name string, id uuid.UUID)
}

// Run runs the suite, a subtest per case. Cases for abilities that the backend does not have are left out.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.New == nil {
		t.Fatal("Harness.New is not set: it makes the backend to try")
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := h.New(t)
			if err := b.complete(); err != nil {
				t.Fatal(err)
			}
			if err := c.try(b, h); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// complete says what the suite cannot do without and was not given.
func (b *Backend) complete() error {
	if b == nil {
		return errors.New("Harness.New made no Backend")
	}
	var missing []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Name", b.Name != ""},
		{"Open", b.Open != nil},
		{"OtherName", b.OtherName != "" && b.OtherName != b.Name},
		{"OpenOther", b.OpenOther != nil},
		{"Type", b.Type != ""},
		{"Args", b.Args != nil},
		{"Inspect", b.Inspect != nil},
		{"Steps", b.Steps != nil},
	} {
		if !f.set {
			missing = append(missing, f.name)
		}
	}
	if missing != nil {
		return fmt.Errorf("every Backend needs %s, and OtherName another than Name: not set: %s",
			"Name, Open, OtherName, OpenOther, Type, Args, Inspect and Steps", strings.Join(missing, ", "))
	}
	return nil
}

// A trial is one case of the suite.
type trial struct {
	name string
	run  func(e *env)
}

var cases = []trial{
	{"Info", info},
	{"SameCallTwice", sameCallTwice},
	{"InterruptedCreate", interruptedCreate},
	{"InterruptedResize", interruptedResize},
	{"InterruptedHibernate", interruptedHibernate},
	{"InterruptedWake", interruptedWake},
	{"InterruptedDeprovision", interruptedDeprovision},
	{"DeprovisionOfNothing", deprovisionOfNothing},
	{"DeprovisionByIDAndType", deprovisionByIDAndType},
	{"UnknownIsNotAbsent", unknownIsNotAbsent},
	{"ObserveInterrupted", observeInterrupted},
	{"StateKeptWithError", stateKeptWithError},
	{"HibernateAndWake", hibernateAndWake},
	{"HibernateOfNothing", hibernateOfNothing},
	{"Resize", resize},
	{"ResizeWithoutRoom", resizeWithoutRoom},
	{"CreateWithoutRoom", createWithoutRoom},
	{"CancelledContext", cancelledContext},
	{"HangingBackend", hangingBackend},
	{"LateCreate", lateCreate},
	{"LateResize", lateResize},
	{"LateWake", lateWake},
	{"LateHibernate", lateHibernate},
	{"LateDeprovision", lateDeprovision},
	{"OthersThingsLeftAlone", othersThingsLeftAlone},
	{"ObserveInOrder", observeInOrder},
	{"Check", check},
	{"Concurrent", concurrent},
	{"InvalidArgs", invalidArgs},
	{"ArgsOfANewerProcess", argsOfANewerProcess},
	{"Repair", repair},
	{"Lister", lister},
	{"Planner", planner},
	{"Reserver", reserver},
	{"Watcher", watcher},
	{"Activator", activator},
}
