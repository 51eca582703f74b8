package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/provisioner"
	"berth/provisioner/provisionertest"
)

// suiteTemplates are a disk, a Service and a Deployment whose size follows the number of slots.
var suiteTemplates = map[string]string{
	"pvc": `apiVersion: v1
kind: PersistentVolumeClaim
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: "{{ .StorageBytes }}"}}
`,
	"service": `apiVersion: v1
kind: Service
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
          resources: {requests: {cpu: "{{ .CPU }}"}}
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: {{ .Names.PVC }}}}]
`,
}

// unmounted are the same with a disk that no pod waits for: that makes the scheduler wait for a second each time.
func unmounted(t *testing.T) map[string]string {
	t.Helper()
	texts := maps.Clone(suiteTemplates)
	for _, line := range []string{"          volumeMounts: [{name: data, mountPath: /data}]\n", "      volumes: [{name: data, persistentVolumeClaim: {claimName: {{ .Names.PVC }}}}]\n"} {
		require.Contains(t, texts["deployment"], line)
		texts["deployment"] = strings.ReplaceAll(texts["deployment"], line, "")
	}
	return texts
}

func TestConformance(t *testing.T) {
	t.Parallel()
	provisionertest.Run(t, provisionertest.Harness{Patience: time.Minute, Sparing: testing.Short(), New: func(t *testing.T) *provisionertest.Backend {
		texts := unmounted(t)
		delete(texts, "service") // the suite interrupts every request in every manner: fewer kinds are fewer requests
		w := newWorld(t, written(t, texts))
		steps := &provisionertest.Steps{}
		w.via = func(next http.RoundTripper) http.RoundTripper { return stepped{next, "/namespaces/" + w.Name, steps} }
		w.answers = stepped{pong{}, "", steps}
		open := func(name string) func() provisioner.Provisioner {
			return func() provisioner.Provisioner { return strict{w.open(t, name), w, name} }
		}
		args := func(slots int) json.RawMessage { return provisioner.Encode(provisioner.RuntimeArgs{Slots: slots}) }
		return &provisionertest.Backend{
			Name: "k8s-a", Open: open("k8s-a"), OtherName: "k8s-b", OpenOther: open("k8s-b"),
			Type: provisioner.Runtime, Args: args(1), Larger: args(2),
			Invalid:         []json.RawMessage{args(0), provisioner.Encode(provisioner.RuntimeArgs{Slots: 1, Version: "x y"})},
			FencedByContext: true, Steps: steps, Calls: 200,
			Inspect: w.inspect,
			Data: func(name string, id uuid.UUID) string {
				return strings.Join(w.uids(name, id, "PersistentVolumeClaim"), " ")
			},
			Elapse: func() { <-time.After(10 * time.Millisecond) },
			Lose: func(name string, id uuid.UUID) {
				in := w.dynamic.Resource(someKinds[6]).Namespace(w.Name)
				err := in.DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: LabelResource + "=" + id.String()})
				if err != nil {
					panic(err)
				}
			},
		}
	}})
}

// stepped puts each request through the steps of the suite.
type stepped struct {
	next  http.RoundTripper
	in    string // what the names of requests are without
	steps *provisionertest.Steps
}

func (s stepped) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	before, after, _ := strings.Cut(r.URL.Path, s.in)
	name := r.Method + " " + cmp.Or(after, before)
	err = s.steps.Do(r.Context(), name, func(ctx context.Context) (err error) {
		answer, err = s.next.RoundTrip(r.Clone(ctx)) //nolint:bodyclose // the caller closes it, and below it is closed for it
		return err
	})
	if err != nil && answer != nil {
		_ = answer.Body.Close()
		answer = nil
	}
	if err != nil && strings.Contains(err.Error(), "reset by peer") {
		err = errNoRoute // what a reading request that was reset is sent again for is no interruption
	}
	return answer, err
}

var errNoRoute = errors.New("no route to host")

// WrappedRoundTripper lets connections be closed.
func (s stepped) WrappedRoundTripper() http.RoundTripper { return s.next }

// inspect lists what there is of a resource, once what is on its way out is gone. An anchor that owns nothing is left out: a request that
// comes late may make one, nothing acts on it, and List finds it. So is the size of a disk, which never shrinks.
func (w *world) inspect(name string, id uuid.UUID) (lines []string) {
	end := time.Now().Add(patience)
	for {
		all := w.objects(name, id)
		anchors, goes := map[string]bool{}, false
		for _, o := range all {
			anchors[string(o.GetUID())] = isAnchor(&o)
		}
		for _, o := range all {
			owner := string(anchorOf(&o))
			goes = goes || isLeaving(&o) || owner != "" && !anchors[owner]
			if o.GetKind() == "Pod" || o.GetKind() == "ReplicaSet" {
				goes = goes || !slices.ContainsFunc(all, func(d unstructured.Unstructured) bool { return d.GetKind() == "Deployment" })
			}
		}
		if !goes || time.Now().After(end) {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	for _, o := range w.objects(name, id) {
		switch o.GetKind() {
		case "Deployment":
			cpu, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			lines = append(lines, fmt.Sprint("Deployment ", cpu[0].(map[string]any)["resources"]))
		case "Pod", "ReplicaSet":
		default:
			if !isAnchor(&o) {
				lines = append(lines, o.GetKind())
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// strict looks, when a call says that all is gone, whether that is so at this very moment.
type strict struct {
	*Kubernetes
	w    *world
	name string
}

func (s strict) Hibernate(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	o, err := s.Kubernetes.Hibernate(ctx, r)
	if o.Phase == provisioner.PhaseHibernated {
		for _, left := range s.w.objects(s.name, r.ID) {
			if !isVolume(&left) {
				panic("hibernated, but there is " + titleOf(&left))
			}
		}
	}
	return o, err
}

func (s strict) Deprovision(ctx context.Context, r *provisioner.Resource) (provisioner.Observation, error) {
	o, err := s.Kubernetes.Deprovision(ctx, r)
	if o.Phase == provisioner.PhaseAbsent {
		for _, left := range s.w.objects(s.name, r.ID) {
			panic("absent, but there is " + titleOf(&left))
		}
	}
	return o, err
}
