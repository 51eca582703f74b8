package kubernetes

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"berth/provisioner"
)

// Every set of templates is made, left alone when nothing has changed, hibernated, woken on the same disks, and removed without a rest.
func TestLife(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("testdata/sets/*")
	require.NoError(t, err)
	for _, folder := range append(folders, "testdata/base", "../../examples/kubernetes/runtime", "../../examples/kubernetes/stateful") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, templates(t, folder))
			k := w.open(t, "k8s-a")
			r := newResource(testArgs(t, "full.json"))
			drive(t, k.Reconcile, r, provisioner.PhaseReady)
			require.Equal(t, provisioner.PhaseReady, observed1(t, k, r).Phase)
			require.Empty(t, observed1(t, k, r).Drift)

			quiet(t, w, k, r)
			before, pods, disks := w.versions("k8s-a", r.ID), w.uids("k8s-a", r.ID, "Pod"), w.uids("k8s-a", r.ID, "PersistentVolumeClaim")
			for _, again := range []*Kubernetes{k, w.open(t, "k8s-a")} {
				drive(t, again.Reconcile, r, provisioner.PhaseReady)
				require.Equal(t, before, w.versions("k8s-a", r.ID), "nothing has changed")
			}
			plan, err := k.Plan(t.Context(), *r)
			require.NoError(t, err)
			require.Empty(t, plan)

			drive(t, k.Hibernate, r, provisioner.PhaseHibernated)
			for _, o := range w.objects("k8s-a", r.ID) {
				require.Equal(t, "PersistentVolumeClaim", o.GetKind(), o.GetName())
			}
			require.Equal(t, provisioner.PhaseHibernated, observed1(t, k, r).Phase)
			k = w.open(t, "k8s-a")
			drive(t, k.Reconcile, r, provisioner.PhaseReady)
			require.Equal(t, disks, w.uids("k8s-a", r.ID, "PersistentVolumeClaim"), "the same disks")
			if len(pods) > 0 {
				require.NotEqual(t, pods, w.uids("k8s-a", r.ID, "Pod"))
			}
			drive(t, w.open(t, "k8s-a").Deprovision, &provisioner.Resource{ID: r.ID, Type: r.Type}, provisioner.PhaseAbsent)
			require.Empty(t, w.objects("k8s-a", uuid.Nil))
		})
	}
}

func observed1(t *testing.T, k *Kubernetes, r *provisioner.Resource) provisioner.Observation {
	t.Helper()
	all, err := k.Observe(t.Context(), []provisioner.Resource{*r})
	require.NoError(t, err)
	return all[0]
}

// quiet waits until the cluster writes nothing more by itself.
func quiet(t *testing.T, w *world, _ *Kubernetes, r *provisioner.Resource) {
	t.Helper()
	last := w.versions("k8s-a", r.ID)
	same := 0
	until(t, "nothing is written", func() (bool, string) {
		now := w.versions("k8s-a", r.ID)
		if mapsEqual(now, last) {
			same++
		} else {
			same = 0
		}
		last = now
		return same > 4, fmt.Sprint(now)
	})
}

func mapsEqual(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}
