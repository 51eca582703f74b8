package dbtest

import (
	"fmt"
	"net/http"
	"os"

	"go.uber.org/goleak"
)

// Runner is a *testing.M, or one that does something more.
type Runner interface{ Run() int }

// Main is the TestMain of a package whose tests use databases: it runs them, leaves the server, and fails when goroutines are
// left over. The options are for goroutines that a package cannot end.
func Main(m Runner, ignore ...goleak.Option) {
	code := m.Run()
	if err := leave(); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		code = max(code, 1)
	}
	http.DefaultClient.CloseIdleConnections() // kept open for a next request that will not come
	if code == 0 {
		if err := goleak.Find(ignore...); err != nil {
			fmt.Fprintln(os.Stderr, "dbtest: goroutines are left over:", err)
			code = 1
		}
	}
	os.Exit(code)
}
