package main

import "runtime/debug"

// builtAs is the version where it is given at the build (-ldflags "-X main.builtAs=..."): an image is built without the repository.
var builtAs string

// programVersion is what this program was built from.
func programVersion() string {
	if builtAs != "" {
		return builtAs
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return info.Main.Version
}
