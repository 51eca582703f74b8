package static_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
	"berth/provisioner/static"
)

// What a runtime amounts to is counted in bytes, and more than can be counted is a fault of the configuration.
func TestSizeNeverOverflows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason         string
		slots, storage int
		refused        bool
	}{
		"usual":             {"50 slots of 40 GB", 50, 40, false},
		"most of the usual": {"slots alone are bounded by the database", 230584300, 40, false},
		"too many":          {"one more would be counted below zero", 230584301, 40, true},
		"largest slot":      {"1 PB each", 8796, 1 << 20, false},
		"too large a slot":  {"1 PB each", 8797, 1 << 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := static.FactoryVia(nil, nil, 1, 1, 1)("a", provisioner.Encode(map[string]any{
				"slot": map[string]any{"storage_gb": c.storage}, "runtimes": []any{runtime("http://a:1", c.slots)},
			}), provisioner.Options{})
			size := provisioner.Slot{CPU: 1, MemoryGB: 1, StorageGB: c.storage}.Size(provisioner.RuntimeConfig{}, c.slots)
			require.Equal(t, !c.refused, size.StorageBytes > 0 && size.StorageBytes/1e9 == int64(c.slots)*int64(c.storage), c.reason)
			if c.refused {
				require.ErrorContains(t, err, "runtimes[0].slots", c.reason)
				return
			}
			require.NoError(t, err, c.reason)
		})
	}
}
