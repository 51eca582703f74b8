package bench

import (
	"context"

	"github.com/riverqueue/river"
)

// noopQueue is the queue of the yardstick.
const noopQueue = "noop"

// noopArgs is a job that does nothing: what the queue alone can do.
type noopArgs struct {
	At int64 `json:"at"` // nanoseconds; when its transaction was begun
}

// Kind names the kind of job.
func (noopArgs) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
	began func(noopArgs)
}

// Work does nothing.
func (w *noopWorker) Work(_ context.Context, job *river.Job[noopArgs]) error {
	if w.began != nil {
		w.began(job.Args)
	}
	return nil
}
