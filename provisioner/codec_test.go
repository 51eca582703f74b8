package provisioner_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

type sample struct {
	Bytes int64                  `json:"bytes"`
	Any   any                    `json:"any,omitempty"`
	Inner *sample                `json:"inner,omitempty"`
	List  []sample               `json:"list,omitempty"`
	Map   map[string]sample      `json:"map,omitempty"`
	Key   provisioner.Secret     `json:"key"`
	Free  map[string]json.Number `json:"free,omitempty"`
	embedded
}

type embedded struct {
	Name string `json:"name"`
}

func TestDecode(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		raw    string
		want   sample
		fails  bool
	}{
		"nothing":    {reason: "no notes yet", raw: "", want: sample{}},
		"null":       {reason: "a column that holds JSON null", raw: "null", want: sample{}},
		"exact":      {reason: "beyond what a float holds", raw: `{"bytes": 9007199254740993}`, want: sample{Bytes: 9007199254740993}},
		"exact any":  {reason: "also where no type says so", raw: `{"any": 9007199254740993}`, want: sample{Any: json.Number("9007199254740993")}},
		"unknown":    {reason: "a newer process wrote it", raw: `{"bytes": 1, "newer": {"bytes": 2}}`, want: sample{Bytes: 1}},
		"too large":  {reason: "must not be rounded", raw: `{"bytes": 9223372036854775808}`, fails: true},
		"not whole":  {reason: "must not be cut", raw: `{"bytes": 1.5}`, fails: true},
		"quoted":     {reason: "another type", raw: `{"bytes": "1"}`, fails: true},
		"two values": {reason: "half of it would be lost", raw: `{"bytes": 1} {"bytes": 2}`, fails: true},
		"cut off":    {reason: "not JSON", raw: `{"bytes": 1`, fails: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := provisioner.Decode[sample](json.RawMessage(tt.raw))
			if tt.fails {
				require.ErrorIs(t, err, provisioner.ErrInvalid, tt.reason)
				require.Empty(t, cmp.Diff(sample{}, got, cmp.AllowUnexported(sample{})), tt.reason)
				return
			}
			require.NoError(t, err, tt.reason)
			require.Empty(t, cmp.Diff(tt.want, got, cmp.AllowUnexported(sample{})), tt.reason)
		})
	}
}

func TestEncodeIsTheInverseOfDecode(t *testing.T) {
	t.Parallel()

	want := provisioner.RuntimeConfig{Host: "http://a", Slots: 2, StorageBytes: 9007199254740993}
	got, err := provisioner.Decode[provisioner.RuntimeConfig](provisioner.Encode(want))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got))
}

func TestDecodeSpecIsStrict(t *testing.T) {
	t.Parallel()

	got, err := provisioner.DecodeSpec[sample](json.RawMessage(
		`{"bytes": 1, "name": "n", "key": "k", "any": {"x": 1}, "inner": {"bytes": 2}, "list": [{"bytes": 3}], "map": {"X": {"bytes": 4}}, "free": {"Y": 5}}`))
	require.NoError(t, err)
	require.Equal(t, "n", got.Name)
	require.EqualValues(t, 4, got.Map["X"].Bytes)

	_, err = provisioner.DecodeSpec[sample](json.RawMessage(
		`{"BYTES": 1, "inner": {"byte": 1}, "list": [{"bytes": 1, "bytes": 2}, {"other": "hunter2"}], "map": {"k": {"Name": "n"}}}`))
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	const known = "known are any, bytes, free, inner, key, list, map, name"
	require.Empty(t, cmp.Diff([]string{
		"list[0].bytes: written twice: keep one of them",
		"BYTES: unknown key: did you mean bytes",
		"inner.byte: unknown key: did you mean bytes",
		"list[1].other: unknown key: " + known,
		"map.k.Name: unknown key: did you mean name",
	}, lines(err)))

	_, err = provisioner.DecodeSpec[sample](json.RawMessage(`{"bytes": 1} true`))
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	_, err = provisioner.DecodeSpec[sample](json.RawMessage(`{"bytes": 1.5}`))
	require.ErrorIs(t, err, provisioner.ErrInvalid)
}
