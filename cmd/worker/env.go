package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"berth/provisioner/set"
)

// envTag is the tag of a flag that may be given by the environment. Not kong's own, which reads the environment of the process.
const envTag = "envvar"

// fromEnv takes flags from the environment. A variable that is empty counts as not set.
func fromEnv(lookup func(string) (string, bool)) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if name := flag.Tag.Get(envTag); name != "" {
			if v, ok := lookup(name); ok && v != "" {
				return v, nil
			}
		}
		return nil, nil
	})
}

// showEnv is the help of a flag, with the variable that gives it.
func showEnv(v *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(v)
	if name := v.Tag.Get(envTag); name != "" {
		return strings.TrimSuffix(help, ".") + " ($" + name + ")."
	}
	if name := v.Tag.Get(settingTag); name != "" {
		return strings.TrimSuffix(help, ".") + " ($" + name + " or $" + alias(name) + "; with " + set.EnvFile + " at the end, the path of a file that holds it)."
	}
	return help
}
