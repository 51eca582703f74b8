package main

import (
	"fmt"

	"berth/internal/defaults"
)

// paging is the flag that bounds a page of a listing. Where it begins is a flag of each listing's own.
type paging struct {
	Limit int `name:"limit" placeholder:"N" default:"${page}" help:"At most so many. ${page} if not given."`
}

// Validate refuses a page that holds nothing, or too much.
func (p paging) Validate() error {
	if p.Limit < 1 || p.Limit > defaults.MaxPage {
		return fmt.Errorf("--limit: %d is out of range: use 1 to %d", p.Limit, defaults.MaxPage)
	}
	return nil
}

// full tells a person how to go on after a page that is full. The last one is asked for only then.
func (p paging) full(a *app, rows int, last func() string) {
	if rows >= p.Limit {
		a.say("there may be more: --after %s", last())
	}
}
