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
