package provisionertest

import (
	"context"
	"testing"

	"go.uber.org/goleak"
)

// theEnd is the context of those who do not listen to theirs: it ends when all tests did.
var theEnd, endAll = context.WithCancel(context.Background())

func TestMain(m *testing.M) { goleak.VerifyTestMain(ending{m}) }

type ending struct{ *testing.M }

func (e ending) Run() int {
	defer endAll()
	return e.M.Run()
}
