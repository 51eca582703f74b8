package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// What client-go logs by itself is written as our lines are, for who debugs, and for nobody else. It does so here of a credential
// plugin that works once.
func TestClusterLogs(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401, "message": "Unauthorized"}`)
	}))
	t.Cleanup(s.Close)
	for name, debugs := range map[string]bool{"debug": true, "info": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := filepath.Join(t.TempDir(), "plugin.sh")
			require.NoError(t, os.WriteFile(script, []byte(`mkdir "$0.ran" 2>/dev/null || exit 1
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "hunter2"}}'
`), 0o600))
			b := setup(t).with(cluster(t, s.URL, `{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [`+strconv.Quote(script)+`], interactiveMode: Never}}`))
			b.ok("org", "create", "acme")
			b.ok("project", "create", "acme/web")
			b.env["LOG_LEVEL"] = name
			p := start(t, b.env, "run")
			p.line(p.stdout, "ready")
			b.env["LOG_LEVEL"] = ""
			id := uuid.NewString()
			b.ok("deployment", "create", "acme/web", "--id", id)
			if debugs {
				require.Contains(t, p.line(p.logged, "refreshing credentials"), `"level":"DEBUG"`)
			}
			b.says(id, "the cluster does not know our credentials")
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
			require.Equal(t, 0, p.wait().ExitStatus(), p.stderr.String())
			p.linesAreOurs()
			require.Equal(t, debugs, strings.Contains(p.stderr.String(), `"library":"client-go"`))
			require.NotContains(t, p.stderr.String(), "hunter2")
		})
	}
}
