package provisionertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

// What is left out is named, before it is missed somewhere in the middle.
func TestIncompleteBackend(t *testing.T) {
	t.Parallel()
	const all = "Name, Open, OtherName, OpenOther, Type, Args, Inspect, Steps"
	require.ErrorContains(t, (*Backend)(nil).complete(), "made no Backend")
	require.ErrorContains(t, (&Backend{}).complete(), "not set: "+all)
	b := backend(kind{types: provisioner.Runtime}, asIs)
	require.NoError(t, b.complete())
	b.OtherName, b.Steps = b.Name, nil
	require.ErrorContains(t, b.complete(), "not set: OtherName, Steps")
}

// Sparing leaves no manner out, and has each exchange fail once, and the call end at it once: of those of one name the first and the last.
func TestSparing(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "a", "a"}
	tried := map[manner]bool{}
	for at, name := range names {
		require.Len(t, (&env{}).manners(names, at), 6)
		two := (&env{h: Harness{Sparing: true}}).manners(names, at)
		if at == 4 {
			require.Empty(t, two, "neither the first nor the last %s", name)
			continue
		}
		require.Len(t, two, 2)
		require.Contains(t, failing, two[0])
		require.Contains(t, endings, two[1])
		tried[two[0]], tried[two[1]] = true, true
	}
	require.Len(t, tried, 6)
}
