package jobs

import (
	"testing"

	"berth/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }
