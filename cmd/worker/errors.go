package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgconn"

	"berth/db"
	"berth/internal/terminal"
	"berth/lifecycle"
	"berth/provisioner"
)

// errInterrupted says that a signal ended the command before it was done.
var errInterrupted = errors.New("interrupted: what was asked for already goes on without this command")

// Exit statuses. Scripts depend on them.
const (
	exitFailed  = 1 // failed, or not reached
	exitUsage   = 2 // wrong use
	exitRefused = 3 // refused with a reason
)

// usageError is a command line that makes no sense.
type usageError struct{ text string }

// Error returns the text.
func (e *usageError) Error() string { return e.text }

// usage makes one of what the parser says, with nothing in it that may be a secret.
func usage(err error, args []string) error {
	text := err.Error()
	for _, a := range args {
		text = mask(text, a)
		if _, value, ok := strings.Cut(a, "="); ok {
			text = mask(text, value)
		}
	}
	if !strings.Contains(text, "--help") {
		text += ": see " + asked(err) + " --help"
	}
	return &usageError{text}
}

// asked is the command that was meant, as far as it was understood.
func asked(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil {
		for _, p := range slices.Backward(wrong.Context.Path) {
			if p.Command != nil {
				return p.Command.FullPath()
			}
		}
	}
	return "worker"
}

// mayBeSecret reports whether a text may hold a password: an address, key=value pairs of one, or JSON.
func mayBeSecret(s string) bool {
	return strings.Contains(s, "://") || strings.Contains(strings.ToLower(s), "password") || strings.ContainsAny(s, "{[")
}

// mask takes an argument out of a text if it may hold a password.
func mask(text, arg string) string {
	if !mayBeSecret(arg) {
		return text
	}
	for _, shown := range []string{arg, strings.Trim(strconv.Quote(arg), `"`)} {
		text = strings.ReplaceAll(text, shown, "***")
	}
	return text
}

// exitStatus is what the process ends with.
func exitStatus(err error) int {
	var wrong *usageError
	var filled *db.NotEmptyError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong), errors.Is(err, db.ErrURL):
		return exitUsage
	case errors.As(err, &filled), errors.Is(err, provisioner.ErrInvalid),
		errors.Is(err, lifecycle.ErrInvalid), errors.Is(err, lifecycle.ErrNotFound), errors.Is(err, lifecycle.ErrConflict):
		return exitRefused
	}
	return exitFailed
}

// remedy is what to do about what only the server says, to be put after it.
func remedy(err error) string {
	var told *db.ConnectError
	var connect *pgconn.ConnectError
	var answer *pgconn.PgError
	switch {
	case errors.As(err, &told):
		return "" // it has its own
	case errors.As(err, &connect), errors.As(err, &answer) && disconnected(answer):
		return ": try again when the server is up"
	case answer != nil && answer.Code == "42501": // insufficient_privilege
		return ": connect as a user who may, such as the owner of the database"
	case answer != nil && answer.Code == "25006": // read_only_sql_transaction
		return ": set DATABASE_URL to a database that takes writes, such as the primary"
	}
	return ""
}

// errorLines is what is told of an error: one line, and of a configuration one for each fault.
func errorLines(err error) string {
	var faults provisioner.Faults
	if !errors.As(err, &faults) {
		return "worker: " + terminal.Clean(err.Error()+remedy(err)) + "\n"
	}
	var b strings.Builder
	for _, f := range faults {
		b.WriteString("worker: " + terminal.Clean(f.Error()) + "\n")
	}
	return b.String()
}
