package stub_test

import (
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/internal/stub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRuntime(t *testing.T) {
	t.Parallel()
	first, err := stub.Start(t.Context(), 0)
	require.NoError(t, err)
	u, err := url.Parse(first.URL())
	require.NoError(t, err)
	taken, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	second, err := stub.Start(t.Context(), taken)
	require.NoError(t, err)
	require.NotEqual(t, first.URL(), second.URL(), "a port that is taken is no reason to give up")

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status := func(method, url string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	for _, r := range []*stub.Runtime{first, second} {
		require.Equal(t, http.StatusOK, status(http.MethodGet, r.URL()+"/v1/ping"))
		require.Equal(t, http.StatusNotFound, status(http.MethodGet, r.URL()+"/"))
		require.Equal(t, http.StatusMethodNotAllowed, status(http.MethodPost, r.URL()+"/v1/ping"))
	}
	for _, r := range []*stub.Runtime{first, second, first} {
		require.NoError(t, r.Close())
	}
}
