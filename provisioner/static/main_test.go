package static_test

import (
	"testing"

	"berth/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }
