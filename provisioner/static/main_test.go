package static_test

import (
	"os"
	"testing"

	"berth/db/dbtest"
)

// TestMain makes the test binary a worker process when it is told to be one.
func TestMain(m *testing.M) {
	if raw, ok := os.LookupEnv(orderEnv); ok {
		os.Exit(takeInProcess(raw))
	}
	dbtest.Main(m)
}
