package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

// refusing is a cluster that answers nothing, and counts who asks.
type refusing struct{ asked atomic.Int64 }

func (r *refusing) RoundTrip(*http.Request) (*http.Response, error) {
	r.asked.Add(1)
	return nil, errors.New("refused")
}

// calls are those that look for objects of ours.
func calls(k *Kubernetes) map[string]func(context.Context) error {
	r := provisioner.Resource{ID: testResource.ID, Type: testResource.Type, Args: provisioner.Encode(provisioner.RuntimeArgs{Slots: 1})}
	observed := func(_ provisioner.Observation, err error) error { return err }
	return map[string]func(context.Context) error{
		"Reconcile":   func(ctx context.Context) error { c := r; return observed(k.Reconcile(ctx, &c)) },
		"Hibernate":   func(ctx context.Context) error { c := r; return observed(k.Hibernate(ctx, &c)) },
		"Deprovision": func(ctx context.Context) error { c := r; return observed(k.Deprovision(ctx, &c)) },
		"Observe":     func(ctx context.Context) error { _, err := k.Observe(ctx, []provisioner.Resource{r}); return err },
		"Check":       func(ctx context.Context) error { _, err := k.Check(ctx); return err },
		"Plan":        func(ctx context.Context) error { _, err := k.Plan(ctx, r); return err },
		"List":        func(ctx context.Context) error { _, err := k.List(ctx); return err },
	}
}

// Which installation this is is asked for by whatever call comes first, once it is known never again, and no request goes out before.
// Whoever only reads a configuration does not ask.
func TestInstallation(t *testing.T) {
	t.Parallel()
	for name := range calls(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &refusing{}
			broken, id, asked := errors.New("no database"), "", 0
			ask := func(context.Context) (string, error) {
				asked++
				return id, broken
			}
			spec := rawSpec(t, written(t, map[string]string{"deployment": sampleDeployment}), map[string]any{"kubeconfig_path": writeFile(t, kubeconfig)})
			p, err := factory(ask, func(http.RoundTripper) http.RoundTripper { return cluster }, cluster)("k8s-a", spec, provisioner.Options{})
			require.NoError(t, err)
			k, ok := p.(*Kubernetes)
			require.True(t, ok)
			require.True(t, k.Info().Supports(provisioner.Runtime))
			_ = k.Warnings()
			require.NotEmpty(t, k.Fingerprint())
			require.Zero(t, asked)

			do := calls(k)[name]
			for i := range 2 {
				err := do(t.Context())
				require.ErrorIs(t, err, broken)
				require.NotErrorIs(t, err, provisioner.ErrUnavailable, "the cluster has nothing to do with it")
				require.Equal(t, i+1, asked)
			}
			broken = nil
			for _, id = range []string{"", "not a label"} {
				require.ErrorContains(t, do(t.Context()), "can not be the value of a label")
			}
			require.Zero(t, cluster.asked.Load())
			id = "0a1b"
			for range 2 {
				require.ErrorIs(t, do(t.Context()), provisioner.ErrUnavailable)
				require.Equal(t, 5, asked)
			}
			require.Positive(t, cluster.asked.Load())
			require.Equal(t, "0a1b", k.owner(testResource).labels()[LabelInstallation])
			require.NoError(t, k.Close())
		})
	}
}

// A call that did not ask does not go on as if nothing were ours.
func TestInstallationUnknown(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { (&Kubernetes{}).installation() })
}
