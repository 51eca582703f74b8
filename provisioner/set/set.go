package set

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"berth/provisioner"
)

// A Set is the configured provisioners, ready to be used. Safe for concurrent use.
type Set struct {
	defaultName string
	entries     map[string]*Entry
	closing     sync.Once
	closed      error
}

// An Entry is one provisioner of a set.
type Entry struct {
	Name        string
	Type        string // as configured: static, ...
	Provisioner provisioner.Provisioner
	spec        []byte // plain JSON
}

// Default returns the name of the default provisioner. It is in the set and makes runtimes.
func (s *Set) Default() string { return s.defaultName }

// Names returns the names, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.entries)) }

// Get returns the provisioner of this name.
func (s *Set) Get(name string) (provisioner.Provisioner, bool) {
	e, ok := s.entries[name]
	if !ok {
		return nil, false
	}
	return e.Provisioner, true
}

// All returns the entries, sorted by name.
func (s *Set) All() []Entry {
	all := make([]Entry, 0, len(s.entries))
	for _, name := range s.Names() {
		all = append(all, *s.entries[name])
	}
	return all
}

// Warnings returns what the provisioners have to say of their configurations, sorted by their names. See [provisioner.Warner].
func (s *Set) Warnings() provisioner.Faults {
	var all provisioner.Faults
	for _, e := range s.All() {
		w, ok := e.Provisioner.(provisioner.Warner)
		if !ok {
			continue
		}
		for _, f := range w.Warnings() {
			f.Path = provisioner.PathJoin(provisioner.PathKey("", e.Name)+".spec", f.Path)
			all = append(all, f)
		}
	}
	return all
}

// Close closes the provisioners that can be closed. It may be called again and then returns the same.
func (s *Set) Close() error {
	s.closing.Do(func() {
		var errs []error
		for _, e := range s.All() {
			if err := closeOne(e.Provisioner); err != nil {
				errs = append(errs, fmt.Errorf("close provisioner %s: %w", e.Name, err))
			}
		}
		s.closed = errors.Join(errs...)
	})
	return s.closed
}

func closeOne(p provisioner.Provisioner) (err error) {
	c, ok := p.(io.Closer)
	if !ok {
		return nil
	}
	defer func() {
		if recover() != nil {
			err = errors.New("panics")
		}
	}()
	return c.Close()
}
