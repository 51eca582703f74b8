package dbstatic

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"berth/db/dbsqlc"
	"berth/provisioner/static"
)

// Served returns who holds all that was asked for, while its row still says that it waits for room.
func (s *Store) Served(ctx context.Context, pool static.Pool) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT x.id FROM berth.provisioner_resources x
		JOIN berth.static_slots s ON s.resource_id = x.id AND s.provisioner = x.provisioner
		WHERE x.provisioner = $1 AND x.reason = 'NoCapacity' AND s.ticket IS NULL
		ORDER BY x.id`, pool.Name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// Places returns what resources have. What has nothing is not among them.
func (s *Store) Places(ctx context.Context, pool static.Pool, resources []uuid.UUID) (map[uuid.UUID]static.Place, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT s.resource_id, o.host, o.url, o.audience, o.data_dir, s.slots, s.wanted, o.failed_pings, o.unhealthy_since IS NOT NULL
		FROM berth.static_slots s LEFT JOIN berth.static_runtimes o ON o.provisioner = s.provisioner AND o.host = s.host
		WHERE s.provisioner = $1 AND s.resource_id = ANY ($2)`, pool.Name, resources)
	if err != nil {
		return nil, err
	}
	places := map[uuid.UUID]static.Place{}
	var (
		id                      uuid.UUID
		key, url, audience, dir *string
		slots, wanted           int
		failed                  *int
		unhealthy               *bool
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &key, &url, &audience, &dir, &slots, &wanted, &failed, &unhealthy}, func() error {
		places[id] = static.Place{
			Host:   static.Host{Key: value(key), URL: value(url), Audience: value(audience), DataDir: value(dir), Slots: slots},
			Wanted: wanted, FailedPings: value(failed), Unhealthy: value(unhealthy),
		}
		return nil
	})
	return places, err
}

// Runtimes returns the hosts of a pool, by their names: those that are listed, and those that are not but still hold slots.
func (s *Store) Runtimes(ctx context.Context, pool static.Pool) ([]static.Runtime, error) {
	all, err := s.RuntimesOf(ctx, []string{pool.Name})
	return all[pool.Name], err
}

// RuntimesOf is Runtimes of many pools at once.
func (s *Store) RuntimesOf(ctx context.Context, pools []string) (map[string][]static.Runtime, error) {
	return runtimes(ctx, s.pool, pools)
}

func runtimes(ctx context.Context, db dbsqlc.DBTX, pools []string) (map[string][]static.Runtime, error) {
	rows, err := db.Query(ctx, `
		SELECT o.provisioner, o.host, o.url, o.audience, o.data_dir, o.slots, o.used, o.failed_pings, o.cordoned_at IS NOT NULL, o.unhealthy_since, o.removed_at IS NOT NULL
		FROM berth.static_runtimes o WHERE o.provisioner = ANY ($1) AND (o.removed_at IS NULL OR o.used > 0) ORDER BY o.provisioner, o.host`, pools)
	if err != nil {
		return nil, err
	}
	all := map[string][]static.Runtime{}
	var (
		pool  string
		r     static.Runtime
		since *time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&pool, &r.Key, &r.URL, &r.Audience, &r.DataDir, &r.Slots, &r.Used, &r.FailedPings, &r.Cordoned, &since, &r.Removed}, func() error {
		r.UnhealthySince = value(since)
		all[pool] = append(all[pool], r)
		return nil
	})
	return all, err
}

// Waiting returns how many resources wait for room.
func (s *Store) Waiting(ctx context.Context, pool static.Pool) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM berth.static_slots s WHERE s.provisioner = $1 AND s.ticket IS NOT NULL`, pool.Name).Scan(&n)
	return n, err
}

// Cordon closes a host to new resources, or opens it again. The host may be written in any spelling that the configuration
// allows. Whoever waits gets the room of an opened host within a second. Repeat-safe.
func (s *Store) Cordon(ctx context.Context, pool, host string, cordoned bool) error {
	key, err := static.HostKey(host)
	if err != nil {
		return err
	}
	tag, err := s.pool.Exec(ctx, `
		UPDATE berth.static_runtimes o SET cordoned_at = CASE WHEN $3 THEN coalesce(o.cordoned_at, now()) END
		WHERE o.provisioner = $1 AND o.host = $2`, pool, key, cordoned)
	if err != nil {
		return fmt.Errorf("cordon %s in %s: %w", host, pool, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("cordon %q in %q: %w", host, pool, ErrNoHost)
	}
	return nil
}
