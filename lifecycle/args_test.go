package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/lifecycle"
)

// TestArgsAreStoredOrRefused gives Postgres and us the same odd JSON. What we let through it stores, as it is.
func TestArgsAreStoredOrRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t, 1)[0]
	pieces := rapid.SampledFrom([]string{
		`{`, `}`, `[`, `]`, `,`, `:`, `"a"`, `"b"`, `"\u0000"`, `"\\u0000"`, `"\\\u0000"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, `"\ud83d\\ude00"`,
		`"\""`, `"\\"`, `"\uFFFF"`, `"\ufffd"`, "\"\u2028\"", "\"\x7f\"", "\"\xed\xa0\x80\"", "\"\xff\"", `"/"`, `"\/"`, `0`, `-0`, `1.0`, `1e3`, `1E+0005`, `1e-1000`, `1e1001`,
		`1e99999999999`, `-1.5e-20000`, `0e131073`, `12345678901234567890.10`, `1` + strings.Repeat("0", 990), `1` + strings.Repeat("0", 1010), `null`, `true`, ` `, "\n", "\x00",
	})
	value := rapid.Deferred(func() *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				return "{" + strings.Join(rapid.SliceOfN(rapid.Map(pieces, func(s string) string { return `"k` + strings.Trim(s, `"`) + `":` + s }), 0, 4).Draw(t, "members"), ",") + "}"
			case 1:
				return "[" + strings.Join(rapid.SliceOfN(pieces, 0, 4).Draw(t, "elements"), ",") + "]"
			case 2:
				n := rapid.IntRange(1, 80).Draw(t, "depth")
				return strings.Repeat("[", n) + strings.Repeat("]", n)
			}
			return pieces.Draw(t, "piece")
		})
	})
	stored, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		raw := `{"v":` + value.Draw(t, "value") + `,"w":` + value.Draw(t, "another") + `}`
		if rapid.IntRange(0, 9).Draw(t, "bare at 0") == 0 {
			raw = value.Draw(t, "bare")
		}
		errBack := errors.New("all is well: roll back")
		err := b.try(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			n := lifecycle.NewResource{Type: "database", Name: "odd", Args: json.RawMessage(raw)}
			if err := b.client.AddResource(ctx, tx, n, id); err != nil {
				return err
			}
			if strings.TrimSpace(raw) == "" {
				raw = "{}" // nothing in particular is asked for
			}
			var same bool
			if err := tx.QueryRow(ctx, "SELECT args = $2::text::jsonb FROM berth.provisioner_resources WHERE deployment_id = $1 AND name = 'odd'", id, raw).Scan(&same); err != nil {
				return err
			}
			require.True(t, same, raw)
			return errBack
		})
		if errors.Is(err, errBack) {
			stored++
			return
		}
		require.ErrorIs(t, err, lifecycle.ErrInvalid, "%q", raw)
		refused++
	})
	require.Positive(t, stored)
	require.Positive(t, refused)
}

// TestArgsThatDiffer says what is a change of what is asked for and what is only another way to write it.
func TestArgsThatDiffer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t, 1)[0]
	tests := map[string]struct {
		reason, before, after string
		changes               bool
	}{
		"the same":                 {"a repeated call", `{"a": 1}`, `{"a": 1}`, false},
		"spaces":                   {"no value differs", `{"a": 1}`, "{\n\"a\":1}", false},
		"order of keys":            {"objects have none", `{"a": 1, "b": 2}`, `{"b": 2, "a": 1}`, false},
		"another notation":         {"the number is equal", `{"a": 100}`, `{"a": 1e2}`, false},
		"zeros after the point":    {"the number is equal", `{"a": 1}`, `{"a": 1.0}`, false},
		"an escape":                {"the text is equal", `{"a": "é"}`, `{"a": "\u00e9"}`, false},
		"beyond a float, the same": {"exact", `{"a": 9007199254740993}`, `{"a": 9007199254740993}`, false},
		"beyond a float, a point":  {"the number is equal", `{"a": 9007199254740993}`, `{"a": 9007199254740993.0}`, false},
		"beyond a float, with e":   {"the number is equal", `{"a": 9007199254740993}`, `{"a": 9.007199254740993e15}`, false},
		"beyond a float, another":  {"exact: as floats they would be equal", `{"a": 9007199254740993}`, `{"a": 9007199254740992}`, true},
		"text and number":          {"different values", `{"a": 1}`, `{"a": "1"}`, true},
		"one key less":             {"these args are all that is asked for", `{"a": 1, "b": 2}`, `{"a": 1}`, true},
		"nothing any more":         {"these args are all that is asked for", `{"a": 1}`, ``, true},
		"nested":                   {"all levels count", `{"a": {"b": [1, 2]}}`, `{"a": {"b": [2, 1]}}`, true},
	}
	for name, tt := range tests {
		resource := lifecycle.NewResource{Type: "database", Name: strings.NewReplacer(" ", "-", ",", "").Replace(name), Args: json.RawMessage(tt.before)}
		add := func(ctx context.Context, tx pgx.Tx) error { return b.client.AddResource(ctx, tx, resource, id) }
		b.do(t, add)
		b.exec(t, "UPDATE berth.provisioner_resources SET claimed_generation = generation WHERE deployment_id = $1", id)
		before := b.everything(t)
		resource.Args = json.RawMessage(tt.after)
		b.do(t, add)
		if tt.changes {
			require.Equal(t, 1, b.count(t, `SELECT count(*) FROM berth.provisioner_resources
				WHERE name = $1 AND generation = claimed_generation + 1 AND args = coalesce(nullif($2, ''), '{}')::jsonb`, resource.Name, tt.after), "%s: %s", name, tt.reason)
		} else {
			require.Equal(t, before, b.everything(t), "%s: %s", name, tt.reason)
		}
	}
}

// TestUpdateKeepsTheRest changes one thing at a time and leaves everything else as it was.
func TestUpdateKeepsTheRest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t, 1)[0]
	b.exec(t, `UPDATE berth.provisioner_resources SET args = args || '{"newer": {"n": 9007199254740993.10}}' WHERE type = 'runtime'`)
	args := func() (out string) {
		require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT args::text FROM berth.provisioner_resources WHERE type = 'runtime'").Scan(&out))
		return out
	}
	steps := []struct {
		change lifecycle.Change
		want   string
	}{
		{lifecycle.Change{Slots: 5}, `{"newer": {"n": 9007199254740993.10}, "slots": 5, "version": "1.2.3", "annotations": {"plan": "team", "project": "web", "organization": "acme"}, "environment": "prod"}`},
		{lifecycle.Change{Version: "2.0.0"}, `{"newer": {"n": 9007199254740993.10}, "slots": 5, "version": "2.0.0", "annotations": {"plan": "team", "project": "web", "organization": "acme"}, "environment": "prod"}`},
		{lifecycle.Change{Annotations: map[string]string{"a": "<&>\"\u2028é", "plan": "pro"}}, "{\"newer\": {\"n\": 9007199254740993.10}, \"slots\": 5, \"version\": \"2.0.0\", \"annotations\": {\"a\": \"<&>\\\"\u2028é\", \"plan\": \"pro\", \"project\": \"web\", \"organization\": \"acme\"}, \"environment\": \"prod\"}"},
		{lifecycle.Change{Forget: []string{"a", "never-there"}}, `{"newer": {"n": 9007199254740993.10}, "slots": 5, "version": "2.0.0", "annotations": {"plan": "pro", "project": "web", "organization": "acme"}, "environment": "prod"}`},
		{lifecycle.Change{Annotations: map[string]string{"plan": "free"}, Forget: []string{"plan"}}, `{"newer": {"n": 9007199254740993.10}, "slots": 5, "version": "2.0.0", "annotations": {"plan": "free", "project": "web", "organization": "acme"}, "environment": "prod"}`},
	}
	for _, s := range steps {
		b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Update(ctx, tx, s.change, id) })
		require.Equal(t, s.want, args())
		before := b.everything(t)
		b.do(t, func(ctx context.Context, tx pgx.Tx) error { return b.client.Update(ctx, tx, s.change, id) })
		require.Equal(t, before, b.everything(t), "the same again is no change")
	}
}
