package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth/provisioner"
	"berth/provisioner/set"
)

// settingTag is the tag of a flag that the environment may give under several names. It holds the first of them.
const settingTag = "setting"

// given is the text of a setting and what gave it. Faults of reading it leave no text.
type given struct {
	text, by string
	faults   provisioner.Faults
}

// is reports whether anything was given, readable or not.
func (g given) is() bool { return g.text != "" || len(g.faults) > 0 }

// alias is the second name of a setting.
func alias(name string) string { return "BERTH_" + strings.TrimPrefix(name, "RILL_ADMIN_") }

// setting reads a setting: the flag if there is one, else what the environment says of it. A variable that is empty counts as not
// set. Several may be set as long as they say the same, but for spaces around it.
func (a *app) setting(name, flag, value string) given {
	if value != "" {
		return given{text: value, by: flag}
	}
	var first given
	var faults provisioner.Faults
	for _, name := range []string{name, alias(name), name + set.EnvFile, alias(name) + set.EnvFile} {
		text, ok := a.lookupEnv(name)
		if !ok || text == "" {
			continue
		}
		if strings.HasSuffix(name, set.EnvFile) {
			var fault *provisioner.Fault
			if text, fault = readSetting(name, text); fault != nil {
				faults = append(faults, *fault)
				continue
			}
		}
		switch {
		case first.by == "":
			first = given{text: text, by: name}
		case strings.TrimSpace(text) != strings.TrimSpace(first.text):
			faults = append(faults, provisioner.Fault{Path: first.by, Problem: "says something else than " + name, Remedy: "set one of them, or both to the same"})
		}
	}
	if len(faults) > 0 {
		return given{faults: faults}
	}
	return first
}

// readSetting reads the file that a variable names. No fault shows what stands in it.
func readSetting(name, path string) (string, *provisioner.Fault) {
	shown := shortened([]byte(path)) // it may be the text itself, by mistake
	if shown != "***" {
		shown = strconv.Quote(shown)
	}
	fault := func(problem, remedy string) (string, *provisioner.Fault) {
		return "", &provisioner.Fault{Path: name, Value: shown, Problem: problem, Remedy: remedy}
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fault("cannot be read: "+reason(err), "write the path of a file that this user can read")
	case info.IsDir():
		return fault("is a directory", "write the path of a file")
	case !info.Mode().IsRegular(): // a pipe may never end, or never begin
		return fault("is no regular file", "write the path of one")
	}
	raw, err := readBounded(path)
	text := strings.TrimPrefix(string(raw), "\ufeff")
	switch {
	case err != nil:
		return fault("cannot be read: "+reason(err), "write the path of a file that this user can read")
	case len(raw) > set.MaxBytes:
		return fault(fmt.Sprintf("is longer than %d bytes", set.MaxBytes), "")
	case strings.TrimSpace(text) == "":
		return fault("is empty", "write something into it, or unset "+name)
	case !utf8.Valid(raw):
		return fault("is not UTF-8", "save it as UTF-8")
	}
	return text, nil
}

// readBounded reads a file, and of one that is too long only so much that this is seen.
func readBounded(path string) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, set.MaxBytes+1))
}

// reason is why a file cannot be read, without its path.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}
