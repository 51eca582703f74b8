package db

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"berth/db/dbsqlc"
)

// Installation returns the id of this installation of Berth: 32 hexadecimal digits, so that it can be part of a name, or the value of a
// label. The migration drew it, no other database has it unless it is a copy, and it never changes. It may be repeated.
func Installation(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	id, err := dbsqlc.New().InstallationID(ctx, pool)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", errors.New("the database does not say which installation of Berth it is: put back the row of berth.installation, with the id that what it made bears")
	}
	if err != nil {
		return "", fmt.Errorf("ask the database which installation of Berth it is: %w", err)
	}
	return strings.ReplaceAll(id.String(), "-", ""), nil
}
