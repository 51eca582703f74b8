package db

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Version is where one set of migrations stands in the database, and the last one that this program knows. 0 is none.
type Version struct {
	Applied int64
	Latest  int64
}

// Versions is how the schema of the database stands to this program.
type Versions struct {
	Schema Version // our migrations
	Queue  Version // River's
}

func (v Versions) absent() bool { return v.Schema.Applied == 0 && v.Queue.Applied == 0 }

func (v Versions) newer() bool {
	return v.Schema.Applied > v.Schema.Latest || v.Queue.Applied > v.Queue.Latest
}

// Err is nil when the schema is the one that this program knows, else a *SchemaError.
func (v Versions) Err() error {
	if v.Schema.Applied == v.Schema.Latest && v.Queue.Applied == v.Queue.Latest {
		return nil
	}
	return &SchemaError{Versions: v}
}

// SchemaError says that the schema is not the one that this program knows, and what to do.
type SchemaError struct {
	Versions Versions
}

// Error returns the text.
func (e *SchemaError) Error() string {
	v := e.Versions
	numbers := fmt.Sprintf("version %d of %d, queue %d of %d", v.Schema.Applied, v.Schema.Latest, v.Queue.Applied, v.Queue.Latest)
	switch {
	case v.absent():
		return "the schema is not there: run worker migrate up"
	case v.newer():
		return "the schema is newer than this worker (" + numbers + "): upgrade the worker"
	default:
		return "the schema is older than this worker (" + numbers + "): run worker migrate up"
	}
}

// Status reads how far the schema has been migrated. It writes nothing, and a database without the schema is no error.
func Status(ctx context.Context, pool *pgxpool.Pool) (Versions, error) {
	v, err := latest()
	if err != nil {
		return v, err
	}
	if v.Schema.Applied, err = applied(ctx, pool, gooseTable, "SELECT coalesce(max(version_id), 0) FROM "+gooseTable+" WHERE is_applied"); err != nil {
		return v, err
	}
	const riverTable = Schema + ".river_migration"
	v.Queue.Applied, err = applied(ctx, pool, riverTable, "SELECT coalesce(max(version), 0) FROM "+riverTable)
	return v, err
}

// RequireCurrent returns a *SchemaError unless the schema is the one that this program knows. Every command but migrate asks
// it before it does anything.
func RequireCurrent(ctx context.Context, pool *pgxpool.Pool) error {
	v, err := Status(ctx, pool)
	if err != nil {
		return err
	}
	return v.Err()
}

// applied reads one record of migrations, 0 where there is none.
func applied(ctx context.Context, pool *pgxpool.Pool, table, query string) (version int64, err error) {
	var exists bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&exists); err != nil {
		return 0, fmt.Errorf("look for the record of migrations: %w", err)
	}
	if !exists {
		return 0, nil
	}
	if err := pool.QueryRow(ctx, query).Scan(&version); err != nil {
		return 0, fmt.Errorf("read the record of migrations: %w", err)
	}
	return version, nil
}

// latest is what this program knows.
func latest() (v Versions, err error) {
	entries, err := fs.ReadDir(embedded, "migrations")
	if err != nil {
		return v, fmt.Errorf("our migrations: %w", err)
	}
	for _, e := range entries {
		n, err := goose.NumericComponent(e.Name())
		if err != nil {
			return v, fmt.Errorf("our migration %q: %w", e.Name(), err)
		}
		v.Schema.Latest = max(v.Schema.Latest, n)
	}
	river, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		return v, fmt.Errorf("river's migrations: %w", err)
	}
	for _, m := range river.AllVersions() {
		v.Queue.Latest = max(v.Queue.Latest, int64(m.Version))
	}
	return v, nil
}

// Fingerprint changes whenever Migrate would make another schema.
func Fingerprint() (string, error) {
	h := sha256.New()
	for _, from := range []fs.FS{embedded, riverpgxv5.New(nil).GetMigrationFS(riverdriver.MigrationLineMain)} {
		err := fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(from, path)
			fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read the migrations: %w", err)
		}
	}
	fmt.Fprint(h, jobChecks)
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
