package trials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"berth/db/dbtest"
	"berth/lifecycle"
	"berth/provisioner"
	"berth/provisioner/kubernetes"
	"berth/provisioner/kubernetes/kubetest"
)

// inCluster is the provisioner of the cluster.
const inCluster = "cluster"

// clusterTemplates are a disk that no pod mounts, since the scheduler would wait for a second each time, a Service and a Deployment. All
// change with the number of slots.
var clusterTemplates = map[string]string{
	"pvc": `apiVersion: v1
kind: PersistentVolumeClaim
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: "{{ .StorageBytes }}"}}
`,
	"service": `apiVersion: v1
kind: Service
metadata:
  annotations: {slots: "{{ .Slots }}"}
spec:
  selector: {runtime: {{ .ProvisionID | quote }}}
  ports: [{name: http, port: 80}]
`,
	"deployment": `apiVersion: apps/v1
kind: Deployment
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {runtime: {{ .ProvisionID | quote }}}}
  template:
    metadata: {labels: {runtime: {{ .ProvisionID | quote }}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: runtime
          image: "{{ .Image }}:{{ .ImageTag }}"
          args: ["{{ .Slots }}"]
`,
}

// A cluster is a fleet whose deployments are in a namespace of a control plane.
type cluster struct {
	*fleet
	space   *kubetest.Namespace
	objects dynamic.Interface
	spec    func(kubeconfig string) json.RawMessage
	paths   map[string]string    // of the templates
	ids     []uuid.UUID          // deployments that nobody asked to delete
	disks   map[uuid.UUID]string // the uids of the disks of resources
	late    bool                 // an anchor may have been made late, of what is hibernated: it owns nothing, and waits to be used or deleted
}

// newCluster makes a fleet of workers that reach the cluster as the administrator does, or whose requests can be held.
func newCluster(t *testing.T, space *kubetest.Namespace, holdable bool) *cluster {
	t.Helper()
	return newClusterWithin(t, space, holdable, 2*time.Minute)
}

// newClusterWithin is newCluster with so much time for a deployment to run.
func newClusterWithin(t *testing.T, space *kubetest.Namespace, holdable bool, timeout time.Duration) *cluster {
	t.Helper()
	d, err := dynamic.NewForConfig(space.Config)
	require.NoError(t, err)
	paths, folder := map[string]string{}, t.TempDir()
	for key, text := range clusterTemplates {
		paths[key] = filepath.Join(folder, key+".yaml")
		require.NoError(t, os.WriteFile(paths[key], []byte(text), 0o600))
	}
	c := &cluster{space: space, objects: d, disks: map[uuid.UUID]string{}, paths: paths, spec: func(kubeconfig string) json.RawMessage {
		return provisioner.Encode(map[string]any{
			"timeout_seconds": int(timeout.Seconds()), "host": "http://node-*.localhost", "namespace": space.Name, "image": "registry.example.test/runtime",
			"template_paths": paths, "kubeconfig_path": kubeconfig, "ping_path": "", "qps": 10_000, "burst": 10_000,
			"slot": provisioner.Slot{CPU: 1, MemoryGB: 1, StorageGB: 1},
		})
	}}
	b := backend{Type: kubernetes.Type, Spec: c.spec(space.Cluster.Kubeconfig)}
	if holdable {
		b = backend{Type: kubernetes.Type, Spec: c.spec(forwarded), Cluster: space.Cluster.Kubeconfig}
	}
	c.fleet = begin(t, dbtest.New(t), map[string]backend{inCluster: b})
	return c
}

// make makes deployments.
func (c *cluster) make(n int) {
	c.t.Helper()
	c.ids = append(c.ids, c.create(inCluster, n)...)
}

var asked atomic.Int64

// grow asks for more slots than anybody before: each time all objects change.
var grow change = func(l *lifecycle.Client, ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
	return l.Update(ctx, tx, lifecycle.Change{Slots: 1 + int(asked.Add(1))}, ids...)
}

// unrest has deployments change their minds, and some go and others come, until the function that it returns is called.
func (c *cluster) unrest() (calm func()) {
	replace := func(l *lifecycle.Client, ctx context.Context, tx pgx.Tx, ids ...uuid.UUID) error {
		fresh := make([]lifecycle.NewDeployment, len(ids))
		c.ids = slices.DeleteFunc(c.ids, func(id uuid.UUID) bool { return slices.Contains(ids, id) })
		for i := range fresh {
			fresh[i] = lifecycle.NewDeployment{ID: uuid.New(), ProjectID: c.projects[inCluster]}
			c.ids = append(c.ids, fresh[i].ID)
		}
		return errors.Join(l.Delete(ctx, tx, ids...), l.Create(ctx, tx, fresh...))
	}
	changes := []change{(*lifecycle.Client).Stop, (*lifecycle.Client).Start, (*lifecycle.Client).Restart, grow, replace}
	return c.again(300*time.Millisecond, func(ctx context.Context, tx pgx.Tx) error {
		return changes[rand.N(len(changes))](c.admin, ctx, tx, someOf(c.ids, len(c.ids)/10)...)
	})
}

// ours are the kinds of what there may be of a resource, what controllers make of it included.
var ours = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "persistentvolumeclaims"},
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "apps", Version: "v1", Resource: "replicasets"}, {Version: "v1", Resource: "pods"},
}

// there is all that has our labels, by the ids of the resources.
func (c *cluster) there() (map[string][]unstructured.Unstructured, error) {
	all := map[string][]unstructured.Unstructured{}
	for _, kind := range ours {
		list, err := c.objects.Resource(kind).Namespace(c.space.Name).List(context.Background(), metav1.ListOptions{
			LabelSelector: kubernetes.LabelManagedBy + "=" + kubernetes.Manager + "," + kubernetes.LabelProvisioner + "=" + inCluster,
		})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			id := o.GetLabels()[kubernetes.LabelResource]
			all[id] = append(all[id], o)
		}
	}
	return all, nil
}

// booked is a place, as its row says.
type booked struct {
	ID    uuid.UUID
	Phase string
	Slots int64
}

// amiss says what in the cluster is not as the rows say. It holds when nothing is under way.
func (c *cluster) amiss() string {
	rows, err := c.Pool.Query(context.Background(), `SELECT id, phase, (args ->> 'slots')::bigint FROM berth.provisioner_resources ORDER BY id`)
	if err != nil {
		return err.Error()
	}
	places, err := pgx.CollectRows(rows, pgx.RowToStructByPos[booked])
	if err != nil {
		return err.Error()
	}
	all, err := c.there()
	if err != nil {
		return err.Error()
	}
	var wrong []string
	for _, p := range places {
		if why := c.differs(p, all[p.ID.String()]); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s is %s, and %s", p.ID, p.Phase, why))
		}
		delete(all, p.ID.String())
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		for _, o := range all[id] {
			wrong = append(wrong, fmt.Sprintf("%s %s is there, and its resource is not", o.GetKind(), o.GetName()))
		}
	}
	return strings.Join(wrong, "\n")
}

// differs says in what a place is not as its row says.
func (c *cluster) differs(p booked, objects []unstructured.Unstructured) string {
	has := map[string][]unstructured.Unstructured{}
	for _, o := range objects {
		if o.GetDeletionTimestamp() != nil {
			return fmt.Sprintf("%s %s is on its way out", o.GetKind(), o.GetName())
		}
		has[o.GetKind()] = append(has[o.GetKind()], o)
	}
	disk := ""
	if disks := has["PersistentVolumeClaim"]; len(disks) == 1 {
		disk = string(disks[0].GetUID())
	}
	if was := c.disks[p.ID]; was != "" && was != disk {
		return fmt.Sprintf("its disk is %q and was %q", disk, was)
	}
	switch p.Phase {
	case "hibernated":
		for kind, some := range has {
			if len(some) > 1 || kind != "PersistentVolumeClaim" && (kind != "ConfigMap" || !c.late) {
				return fmt.Sprintf("there are %d %s", len(some), kind)
			}
		}
		return ""
	case "ready":
		for _, kind := range []string{"ConfigMap", "PersistentVolumeClaim", "Service", "Deployment", "Pod"} {
			if len(has[kind]) != 1 {
				return fmt.Sprintf("there are %d %s", len(has[kind]), kind)
			}
		}
		c.disks[p.ID] = disk
		return wrongSize(p.Slots, has) + wrongOwner(has)
	}
	return "nothing is under way"
}

// wrongSize says which objects are not of so many slots.
func wrongSize(slots int64, has map[string][]unstructured.Unstructured) (wrong string) {
	want := fmt.Sprint(slots)
	text := func(kind string, path ...string) string {
		s, _, _ := unstructured.NestedString(has[kind][0].Object, path...)
		return s
	}
	args := ""
	if containers, _, _ := unstructured.NestedSlice(has["Pod"][0].Object, "spec", "containers"); len(containers) == 1 {
		if one, ok := containers[0].(map[string]any); ok {
			args = strings.Trim(fmt.Sprint(one["args"]), "[]")
		}
	}
	size := "0"
	if q, err := resource.ParseQuantity(text("PersistentVolumeClaim", "spec", "resources", "requests", "storage")); err == nil {
		size = fmt.Sprint(q.Value() / 1e9)
	}
	for kind, is := range map[string]string{
		"ConfigMap": text("ConfigMap", "data", "slots"), "Service": has["Service"][0].GetAnnotations()["slots"], "Pod": args, "PersistentVolumeClaim": size,
	} {
		if is != want {
			wrong += fmt.Sprintf("%s is of %q slots, not of %s; ", kind, is, want)
		}
	}
	return wrong
}

// wrongOwner says which objects do not go with the anchor, and which do that are to stay.
func wrongOwner(has map[string][]unstructured.Unstructured) (wrong string) {
	anchor := string(has["ConfigMap"][0].GetUID())
	for kind, want := range map[string]string{"Service": anchor, "Deployment": anchor, "PersistentVolumeClaim": ""} {
		owner := ""
		for _, ref := range has[kind][0].GetOwnerReferences() {
			owner += string(ref.UID)
		}
		if owner != want {
			wrong += fmt.Sprintf("%s is owned by %q, not by %q; ", kind, owner, want)
		}
	}
	return wrong
}

// check waits until the rows, and the cluster too, are as they have to be when nothing is under way.
func (c *cluster) check() {
	c.t.Helper()
	c.fleet.check()
	c.until(func() bool { return c.amiss() == "" }, c.amiss)
	c.fleet.check()
}

// nothing waits until nothing of any deployment is left.
func (c *cluster) nothing() {
	c.t.Helper()
	c.fleet.nothing()
	c.until(func() bool { return c.amiss() == "" }, c.amiss)
}

// clean deletes every deployment and waits until nothing of any is left.
func (c *cluster) clean() {
	c.t.Helper()
	c.change((*lifecycle.Client).Delete, c.deployments()...)
	c.ids = nil
	c.nothing()
}

// contents is what was asked for in the objects that were made by templates, and which ones they are.
func (c *cluster) contents() map[string]string {
	c.t.Helper()
	all, err := c.there()
	require.NoError(c.t, err)
	now := map[string]string{}
	for _, o := range slices.Concat(slices.Collect(maps.Values(all))...) {
		if o.GetKind() == "ReplicaSet" || o.GetKind() == "Pod" {
			continue
		}
		unstructured.RemoveNestedField(o.Object, "spec", "volumeName") // of a disk, once it is bound
		raw, err := json.Marshal([]any{o.GetUID(), o.GetOwnerReferences(), o.GetAnnotations()["berth.dev/applied"], o.Object["spec"], o.Object["data"]})
		require.NoError(c.t, err)
		now[o.GetKind()+" "+o.GetName()] = string(raw)
	}
	return now
}
