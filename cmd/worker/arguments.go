package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"berth/provisioner"
)

// projectName is an argument ORG/PROJECT.
type projectName struct{ organization, name string }

// UnmarshalText reads one. Whether the names are allowed is said where they are used.
func (p *projectName) UnmarshalText(b []byte) error {
	organization, name, ok := strings.Cut(string(b), "/")
	if !ok || organization == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%q names no project: write it as ORG/PROJECT, such as acme/web", shortened(b))
	}
	*p = projectName{organization, name}
	return nil
}

// id is an argument that names a deployment.
type id struct{ uuid.UUID }

// UnmarshalText reads one.
func (i *id) UnmarshalText(b []byte) error {
	u, err := uuid.ParseBytes(b)
	if err != nil || u == uuid.Nil {
		return fmt.Errorf("%q is no id: write a UUID, such as 0197b0e6-5c1a-7d2e-9f00-3a4b5c6d7e8f", shortened(b))
	}
	i.UUID = u
	return nil
}

// slots is a number of slots; 0 where none was given.
type slots int

// UnmarshalText reads one.
func (s *slots) UnmarshalText(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no number of slots: write a whole number from 1 to %d", shortened(b), math.MaxInt32)
	}
	*s = slots(n)
	return nil
}

// runtimeVersion is the version of a runtime; empty where none was given.
type runtimeVersion string

// UnmarshalText reads one.
func (v *runtimeVersion) UnmarshalText(b []byte) error {
	if provisioner.ValidVersion(string(b)) != nil {
		return fmt.Errorf("%q is no version: write latest, a version such as 1.2.3, or a commit as 40 lower-case hexadecimal digits", shortened(b))
	}
	*v = runtimeVersion(b)
	return nil
}

// annotations are keys and values.
type annotations map[string]string

// pairs is the flag that gives them.
type pairs struct {
	Annotation []string `name:"annotation" sep:"none" placeholder:"KEY=VALUE" help:"An annotation, which ends up in what is made. May be repeated."`
}

// forgotten is the flag that takes annotations back.
type forgotten struct {
	Forget []string `name:"forget" sep:"none" placeholder:"KEY" help:"An annotation to remove. May be repeated."`
}

// read takes the pairs apart.
func (p pairs) read() (annotations, error) {
	if len(p.Annotation) == 0 {
		return nil, nil
	}
	out := annotations{}
	for _, one := range p.Annotation {
		key, value, ok := strings.Cut(one, "=")
		if !ok {
			return nil, &usageError{fmt.Sprintf("--annotation: %q has no value: write it as KEY=VALUE", shortened([]byte(one)))}
		}
		if _, twice := out[key]; twice {
			return nil, &usageError{fmt.Sprintf("--annotation: %q is given twice: give each key once", shortened([]byte(key)))}
		}
		out[key] = value
	}
	return out, nil
}

// shortened is what a person wrote, bounded, unless it may hold a password.
func shortened(b []byte) string {
	if mayBeSecret(string(b)) {
		return "***"
	}
	const most = 80
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "") + "..."
	}
	return string(b)
}
