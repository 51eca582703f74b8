package lifecycle

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"berth/db/dbsqlc"
	"berth/internal/defaults"
	"berth/jobs"
)

// A Client changes what deployments are to be. It holds no connection and is safe for concurrent use.
type Client struct {
	jobs  *jobs.Inserter
	actor string
	q     *dbsqlc.Queries
}

// maxActor bounds what every event repeats.
const maxActor = 256

// NewClient makes a client. The actor is written into the events of what it changes.
func NewClient(actor string, logger *slog.Logger) (*Client, error) {
	if actor == "" || len(actor) > maxActor || !utf8.ValidString(actor) || strings.ContainsRune(actor, 0) {
		return nil, refuse(ErrInvalid, "actor "+quote(actor), "it is no name", fmt.Sprintf("use 1 to %d bytes of text", maxActor))
	}
	inserter, err := jobs.NewInserter(logger)
	if err != nil {
		return nil, err
	}
	return &Client{jobs: inserter, actor: actor, q: dbsqlc.New()}, nil
}

// Jobs is the inserter of the client, for those who wake places for reasons of their own.
func (c *Client) Jobs() *jobs.Inserter { return c.jobs }

// sorted returns the ids in the order in which everything is locked, each once.
func sorted(ids []uuid.UUID) []uuid.UUID {
	out := slices.Clone(ids)
	slices.SortFunc(out, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(out)
}

// patience is how long the dispatcher leaves the jobs of a change of n deployments alone: longer for many, which take their time,
// than for one, or it would bury a backlog under more jobs.
func patience(n int) time.Duration {
	return defaults.Grace + time.Duration(n)*defaults.GraceEach
}
