package db_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// old is a worker, and an admin, of an older version. It sends what they sent, prepared before the migration.
type old struct {
	conn   *pgxpool.Conn
	sent   map[string]string
	worker uuid.UUID
	rounds atomic.Int64
}

const (
	oldPlace  = "old"  // a provisioner that nobody else works
	oldDigest = "abcd" // of its configuration, where workers announce one
)

// errHeld says that somebody held what was needed, and that it was skipped. Workers ask again then.
var errHeld = errors.New("fewer rows than were to come")

// ask sends a statement that has to give or change so many rows.
func (o *old) ask(ctx context.Context, s sending) error {
	sql, ok := o.sent[s.name]
	if !ok {
		return fmt.Errorf("no statement %s is kept", s.name)
	}
	rows, err := o.conn.Query(ctx, sql, s.args...)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	held := false
	for rows.Next() {
		if values := rows.RawValues(); s.name == "PlaceClaim" {
			held = held || values[0][0] != 0 // the first column of a claim says so
		}
	}
	rows.Close()
	switch {
	case rows.Err() != nil:
		return fmt.Errorf("%s: %w", s.name, rows.Err())
	case held || rows.CommandTag().RowsAffected() < s.rows:
		return fmt.Errorf("%s: %w", s.name, errHeld)
	}
	return nil
}

type sending struct {
	name string
	rows int64 // at least
	args []any
}

// round is the life of one deployment: created, driven, deleted, and gone.
func (o *old) round(ctx context.Context) error {
	ids := func(id uuid.UUID) []uuid.UUID { return []uuid.UUID{id} }
	one := func(s string) []string { return []string{s} }
	yes, no := []bool{true}, []bool{false}
	d, r, first, second := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	hour := time.Hour
	project := uuid.MustParse("00000000-0000-0000-0000-000000000002")
	empty := one(`{}`)
	insert := []any{hour, ids(r), one(oldPlace), ids(d), one("runtime"), one(""), one("ready"), one(`{"slots": 1}`)}
	if strings.Contains(o.sent["PlaceInsert"], "n.timeout") {
		insert = []any{hour, ids(r), one(oldPlace), []time.Duration{hour}, ids(d), one("runtime"), one(""), one("ready"), one(`{"slots": 1}`)}
	}
	beat, events, dispatch := []any{o.worker, "old", one(oldPlace), time.Minute}, []any{d}, []any{time.Duration(0), time.Duration(0), hour, false, hour, 10}
	store := []any{hour, ids(r), one(oldPlace), ids(first), one("ready"), one(""), one(""), empty, one(`{"host": "h"}`), yes, no, no, no, no, no, []time.Duration{-1}, ids(d)}
	if strings.Contains(o.sent["WorkerBeat"], "open_breakers") {
		beat = slices.Insert(beat, 3, any([]string{}))
		store = slices.Insert(store, 13, any(no))
		dispatch = slices.Insert(dispatch, 2, any(time.Duration(0)))
	}
	// Who has a provisioner configured says so: by its name, and since there are digests by that of its configuration, which then acts.
	announce := sending{"ProvisionerAnnounce", 1, []any{one(oldPlace), one("static"), one("runtime"), []time.Duration{hour}}}
	if strings.Contains(o.sent["WorkerBeat"], "digests") {
		beat = slices.Insert(beat, 3, any(one(oldDigest)), any((*string)(nil)))
		store = slices.Insert(store, 9, any(one(oldDigest)))
		dispatch = slices.Insert(dispatch, 4, any([]string{}))
		announce = sending{"ConfigurationHandOver", 0, []any{oldDigest, oldPlace, "", false, time.Duration(0)}}
	}
	if strings.Contains(o.sent["EventList"], "id > $2") {
		events = append(events, 0, 100)
	}
	claim := func(fence uuid.UUID) sending {
		return sending{"PlaceClaim", 1, []any{ids(r), one(oldPlace), ids(fence), o.worker, time.Minute, time.Minute, false, hour}}
	}
	take := func(fence uuid.UUID, slots int) sending {
		return sending{"Static_group_1", 1, []any{oldPlace, false, ids(r), ids(fence), []int{slots}, one("")}}
	}
	for _, tx := range [][]sending{
		{{"WorkerBeat", 1, beat}},
		{announce},
		{{"Static_store_1", 1, []any{oldPlace, `[{"host": "h", "url": "http://h", "audience": "h", "data_dir": "/d", "slots": 4}]`, false}}},
		{ // an admin of that version
			{"ProjectSettings", 1, []any{ids(project)}},
			{"DeploymentInsert", 1, []any{ids(d), ids(project), one("dev")}},
			{"EventDeleted", 0, []any{ids(d)}},
			{"PlaceInsert", 1, insert},
			{"EventInsert", 1, []any{"old", ids(d), ids(uuid.Nil), one("DeploymentCreated"), empty}},
		},
		{claim(first)},
		{take(first, 1)},
		{
			{"DeploymentLock", 1, []any{ids(d)}},
			{"PlaceStore", 1, store},
			{"DeploymentSettleRead", 1, []any{hour, ids(d)}},
			{"DeploymentSettleWrite", 1, []any{ids(d), one("running")}},
			{"EventInsert", 1, []any{"old", ids(d), ids(r), one("StateChanged"), one(`{"old": "pending", "new": "running"}`)}},
		},
		{{"DeploymentGet", 1, []any{d}}, {"PlaceList", 1, []any{ids(d)}}, {"EventList", 2, events}},
		{
			{"DeploymentLockDelete", 1, []any{ids(d)}},
			{"DeploymentWant", 1, []any{"deleted", ids(d)}},
			{"PlaceWishAbsent", 1, []any{hour, ids(d), nil, nil}},
		},
		{claim(second)},
		{take(second, 0)},
		{
			{"DeploymentLockDelete", 1, []any{ids(d)}},
			{"PlaceDrop", 1, []any{ids(r), one(oldPlace), ids(second), ids(d)}},
			{"DeploymentDelete", 1, []any{ids(d)}},
			{"EventInsert", 1, []any{"old", ids(d), ids(uuid.Nil), one("DeploymentDeleted"), empty}},
		},
		{{"EventDeleted", 1, []any{ids(d)}}},
		{{"PlaceDispatch", 0, dispatch}}, // it makes no job, so what is due stays so
		{{"WorkerPrune", 0, []any{hour}}, {"WorkerDead", 0, []any{hour}}, {"Static_store_3", 1, []any{oldPlace, false}}},
	} {
		err := errHeld
		for tries := 0; errors.Is(err, errHeld) && tries < 100; tries++ {
			if tries > 0 {
				<-time.After(10 * time.Millisecond)
			}
			err = pgx.BeginFunc(ctx, o.conn, func(pgx.Tx) error {
				for _, s := range tx {
					if err := o.ask(ctx, s); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	o.rounds.Add(1)
	return nil
}

// work makes rounds until ctx ends. It begins a new one where somebody else went first, as workers do.
func (o *old) work(ctx context.Context) error {
	for ctx.Err() == nil {
		err := o.round(context.WithoutCancel(ctx))
		var pg *pgconn.PgError
		if errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "40P01" || pg.Code == "40001") {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
