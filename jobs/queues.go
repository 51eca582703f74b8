package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"berth/internal/defaults"
)

// Queues are what a client works of the queues of provisioners. Safe for concurrent use.
type Queues struct {
	client *river.Client[pgx.Tx]
	config river.QueueConfig
}

// NewQueues has a client work queues, with so many jobs at once in each; 0 is the default.
func NewQueues(client *river.Client[pgx.Tx], maxWorkers int) *Queues {
	return &Queues{client, queueConfig(maxWorkers)}
}

func queueConfig(maxWorkers int) river.QueueConfig {
	return river.QueueConfig{MaxWorkers: cmp.Or(maxWorkers, defaults.MaxWorkers)}
}

// Work has the client work the queues of a provisioner. Repeat-safe.
func (q *Queues) Work(provisioner string) error {
	for name, config := range map[string]river.QueueConfig{
		Queue(provisioner): q.config, BackgroundQueue(provisioner): queueConfig(backgroundWorkers(q.config.MaxWorkers)),
	} {
		var already *river.QueueAlreadyAddedError
		if err := q.client.Queues().Add(name, config); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("work the queue %s: %w", name, err)
		}
	}
	return nil
}

// Leave has it take no more of these queues, and waits for the jobs that it took. If they take longer than ctx allows no more are
// taken all the same; call it again. Repeat-safe.
func (q *Queues) Leave(ctx context.Context, provisioner string) error {
	var errs []error
	for _, name := range []string{Queue(provisioner), BackgroundQueue(provisioner)} {
		var none *river.QueueNotFoundError
		if err := q.client.Queues().Remove(ctx, name); err != nil && !errors.As(err, &none) {
			errs = append(errs, fmt.Errorf("leave the queue %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
