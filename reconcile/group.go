package reconcile

import (
	"context"
	"sync"

	"berth/internal/defaults"
)

// A group does for many what is ready now. Nothing is waited for: what arrives while one round is under way makes up the next.
type group[T any] struct {
	in chan T
	n  int
	do func(context.Context, []T)
}

func newGroup[T any](n int, do func(context.Context, []T)) *group[T] {
	return &group[T]{in: make(chan T), n: n, do: do}
}

// start runs the group until ctx ends.
func (g *group[T]) start(ctx context.Context, wg *sync.WaitGroup) {
	for range g.n {
		wg.Go(func() {
			for {
				round := g.gather(ctx)
				if round == nil {
					return
				}
				g.do(ctx, round)
			}
		})
	}
}

func (g *group[T]) gather(ctx context.Context) []T {
	var round []T
	select {
	case x := <-g.in:
		round = append(round, x)
	case <-ctx.Done():
		return nil
	}
	for len(round) < defaults.CommitGroup {
		select {
		case x := <-g.in:
			round = append(round, x)
		default:
			return round
		}
	}
	return round
}

// put hands one over; false if ctx ended before anybody took it.
func (g *group[T]) put(ctx context.Context, x T) bool {
	select {
	case g.in <- x:
		return true
	case <-ctx.Done():
		return false
	}
}
