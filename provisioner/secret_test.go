package provisioner_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

const hidden = "hunter2"

func TestSecretIsNeverSeen(t *testing.T) {
	t.Parallel()

	type exported struct{ Password provisioner.Secret }
	type unexported struct{ password provisioner.Secret }
	secret := provisioner.NewSecret(hidden)
	values := map[string]any{
		"bare":               secret,
		"pointer":            &secret,
		"in a struct":        exported{secret},
		"in a hidden field":  unexported{secret},
		"in a hidden, deep":  []any{&exported{secret}, map[string]unexported{"k": {secret}}},
		"in a map":           map[string]provisioner.Secret{"k": secret},
		"in a slice":         []provisioner.Secret{secret},
		"in an error":        fmt.Errorf("dial %v: %w", secret, errors.New("refused")),
		"in a list of a any": []any{secret},
	}
	for name, v := range values {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%20v"} {
				require.NotContains(t, fmt.Sprintf(verb, v), hidden, verb)
				require.NotContains(t, fmt.Sprintf(verb, v), fmt.Sprintf("%x", hidden), verb)
			}
			raw, err := json.Marshal(v)
			require.NoError(t, err)
			require.NotContains(t, string(raw), hidden)

			var log bytes.Buffer
			slog.New(slog.NewTextHandler(&log, nil)).Info("x", slog.Any("v", v))
			slog.New(slog.NewJSONHandler(&log, nil)).Info("x", slog.Any("v", v), slog.Group("g", slog.Any("v", v)))
			require.NotContains(t, log.String(), hidden)
		})
	}
	require.Equal(t, "***", fmt.Sprint(secret))
	require.Equal(t, hidden, secret.Reveal())
	require.Empty(t, provisioner.Secret{}.Reveal())
}

func TestSecretReadsFromJSON(t *testing.T) {
	t.Parallel()

	var spec struct{ Password provisioner.Secret }
	require.NoError(t, json.Unmarshal([]byte(`{"Password": "hunter2"}`), &spec))
	require.Empty(t, cmp.Diff(provisioner.NewSecret(hidden), spec.Password))
	require.NotEmpty(t, cmp.Diff(provisioner.NewSecret("other"), spec.Password))

	for _, wrong := range []string{`{"Password": 12345678}`, `{"Password": ["12345678"]}`, `{"Password": {"a": 12345678}}`} {
		err := json.Unmarshal([]byte(wrong), &spec)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "12345678")
	}
}
