package main

import (
	"context"
	"io"
	"strconv"

	"berth/db"
	"berth/internal/terminal"
)

type migrateStatus struct{ output }

// standing is how the schema stands, as it is shown.
type standing struct {
	Current bool    `json:"current"`
	Schema  version `json:"schema"`
	Queue   version `json:"queue"`
	Message string  `json:"message"`
}

type version struct {
	Applied int64 `json:"applied"`
	Latest  int64 `json:"latest"`
}

// Run shows how far the schema is migrated. That it is not is no failure of this command.
func (c *migrateStatus) Run(ctx context.Context, a *app) error {
	pool, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	v, err := db.Status(ctx, pool)
	if err != nil {
		return err
	}
	s := standing{Current: true, Schema: version(v.Schema), Queue: version(v.Queue), Message: "the schema is what this worker needs"}
	if err := v.Err(); err != nil {
		s.Current, s.Message = false, err.Error()
	}
	return c.write(a.stdout, s, func() io.WriterTo {
		t := terminal.NewTable(terminal.Column{Head: "PART"}, terminal.Column{Head: "APPLIED", Right: true}, terminal.Column{Head: "LATEST", Right: true})
		t.Row("schema", strconv.FormatInt(s.Schema.Applied, 10), strconv.FormatInt(s.Schema.Latest, 10))
		t.Row("queue", strconv.FormatInt(s.Queue.Applied, 10), strconv.FormatInt(s.Queue.Latest, 10))
		return several{t, text(s.Message + "\n")}
	})
}
