package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// makingLock is the advisory lock held while databases are swept and the template is made: "bertht" in ASCII.
const makingLock = 0x626572746874

// templatesKept is how many templates of other states of the schema stay: other checkouts may be testing on the same server.
const templatesKept = 16

// prepare makes the template, and before that does what else only one process may do at a time; nil for nothing.
func (c *cluster) prepare(ctx context.Context, before func(context.Context, *pgx.Conn) error) error {
	conn, err := c.admin.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("prepare the server for tests: %w", err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(makingLock)); err != nil {
		return fmt.Errorf("prepare the server for tests: %w", err)
	}
	defer func() {
		_, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(makingLock))
	}()
	if before != nil {
		if err := before(ctx, conn.Conn()); err != nil {
			return fmt.Errorf("sweep the server for tests: %w", err)
		}
	}
	if err := c.makeTemplate(ctx, conn.Conn()); err != nil {
		return fmt.Errorf("make the template for tests: %w", err)
	}
	return nil
}

// sweep drops the databases of processes of this machine that are gone, and templates that have long been out of use.
func (c *cluster) sweep(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT datname FROM pg_database WHERE datname LIKE 'berth\_t\_%'`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, n := range names {
		m := ownForm.FindStringSubmatch(n)
		if m == nil || m[1] != host() {
			continue
		}
		// Our own pid too: nothing has been made yet, so it is an earlier process's.
		if pid, err := strconv.Atoi(m[2]); err != nil || pid != os.Getpid() && !gone(pid) {
			continue
		}
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+n+" WITH (FORCE)"); err != nil {
			return err
		}
	}
	rows, err = conn.Query(ctx, `SELECT datname FROM pg_database WHERE datname LIKE 'berth\_template\_%' AND datname <> $1
		ORDER BY oid DESC OFFSET $2`, c.template, templatesKept)
	if err != nil {
		return err
	}
	if names, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	for _, n := range names {
		if err := dropTemplate(ctx, conn, n); err != nil {
			return err
		}
	}
	return nil
}

func dropTemplate(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+name+" WITH IS_TEMPLATE false"); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	return err
}

// makeTemplate makes the migrated database that others are copied from, once for each state of the schema.
func (c *cluster) makeTemplate(ctx context.Context, conn *pgx.Conn) error {
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)", c.template).Scan(&exists)
	if err != nil || exists {
		return err
	}
	begun := time.Now()
	// One that is not marked is what a killed process left.
	for _, q := range []string{"DROP DATABASE IF EXISTS " + c.template + " WITH (FORCE)", "CREATE DATABASE " + c.template} {
		if _, err := conn.Exec(ctx, q); err != nil {
			return err
		}
	}
	if err := c.migrate(ctx, c.template); err != nil {
		return err
	}
	if err := c.quiet(ctx, c.template); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+c.template+" WITH IS_TEMPLATE true ALLOW_CONNECTIONS false"); err != nil {
		return err
	}
	logf("template %s made in %v", c.template, time.Since(begun).Round(time.Millisecond))
	return nil
}

// gone says whether there is no such process.
func gone(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
