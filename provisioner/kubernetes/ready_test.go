package kubernetes

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What ready means for each kind, by what its controller says.
func TestStandings(t *testing.T) {
	t.Parallel()
	const ready, serves, broken, waits = "ready", "serves", "broken", "waits"
	for name, c := range map[string]struct{ want, object string }{
		"deployment nobody looked at yet":     {waits, `{kind: Deployment, metadata: {generation: 2}, spec: {replicas: 1}}`},
		"deployment looked at before":         {serves, `{kind: Deployment, metadata: {generation: 2}, status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "True"}]}}`},
		"deployment":                          {ready, `{kind: Deployment, metadata: {generation: 2}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "True"}]}}`},
		"deployment with pods from before":    {serves, `{kind: Deployment, metadata: {generation: 1}, status: {observedGeneration: 1, replicas: 2, updatedReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "True"}]}}`},
		"deployment whose pod is not there":   {waits, `{kind: Deployment, metadata: {generation: 1}, status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, conditions: [{type: Available, status: "False"}]}}`},
		"deployment of none":                  {ready, `{kind: Deployment, metadata: {generation: 1}, spec: {replicas: 0}, status: {observedGeneration: 1, conditions: [{type: Available, status: "True"}]}}`},
		"deployment on its way out":           {waits, `{kind: Deployment, metadata: {generation: 1, deletionTimestamp: "2026-01-02T03:04:05Z"}, status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "True"}]}}`},
		"statefulset":                         {ready, `{kind: StatefulSet, metadata: {generation: 1}, status: {observedGeneration: 1, replicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: a}}`},
		"statefulset on its way to another":   {serves, `{kind: StatefulSet, metadata: {generation: 2}, status: {observedGeneration: 2, replicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: b}}`},
		"statefulset updated when deleted":    {ready, `{kind: StatefulSet, metadata: {generation: 2}, spec: {updateStrategy: {type: OnDelete}}, status: {observedGeneration: 2, replicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: b}}`},
		"statefulset without its pod":         {waits, `{kind: StatefulSet, metadata: {generation: 1}, status: {observedGeneration: 1, replicas: 1}}`},
		"daemonset":                           {ready, `{kind: DaemonSet, metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 2, numberReady: 2, updatedNumberScheduled: 2}}`},
		"daemonset that is updated":           {serves, `{kind: DaemonSet, metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 2, numberReady: 2, updatedNumberScheduled: 1}}`},
		"daemonset without a pod":             {waits, `{kind: DaemonSet, metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 2, numberReady: 1, updatedNumberScheduled: 2}}`},
		"job":                                 {waits, `{kind: Job, status: {active: 1}}`},
		"job that has ended":                  {ready, `{kind: Job, status: {conditions: [{type: Complete, status: "True"}]}}`},
		"job that has failed":                 {broken, `{kind: Job, status: {conditions: [{type: Failed, status: "True", message: backoff}]}}`},
		"pod":                                 {ready, `{kind: Pod, status: {conditions: [{type: Ready, status: "True"}]}}`},
		"pod that is not ready":               {waits, `{kind: Pod, status: {conditions: [{type: Ready, status: "False", message: late}]}}`},
		"disk":                                {ready, `{kind: PersistentVolumeClaim, status: {phase: Bound}}`},
		"disk that waits for its first pod":   {ready, `{kind: PersistentVolumeClaim, status: {phase: Pending}}`},
		"disk whose volume is lost":           {broken, `{kind: PersistentVolumeClaim, status: {phase: Lost}}`},
		"service":                             {ready, `{kind: Service, spec: {}}`},
		"custom without a condition":          {ready, `{apiVersion: example.test/v1, kind: Thing}`},
		"custom, ready":                       {ready, `{apiVersion: example.test/v1, kind: Thing, status: {conditions: [{type: Ready, status: "True"}]}}`},
		"custom, not ready":                   {waits, `{apiVersion: example.test/v1, kind: Thing, status: {conditions: [{type: Ready, status: "False", message: no}]}}`},
		"custom, unknown":                     {waits, `{apiVersion: example.test/v1, kind: Thing, status: {conditions: [{type: Ready, status: Unknown}]}}`},
		"custom, available":                   {ready, `{apiVersion: example.test/v1, kind: Thing, status: {conditions: [{type: Available, status: "True"}]}}`},
		"custom, ready for what it was":       {waits, `{apiVersion: example.test/v1, kind: Thing, metadata: {generation: 3}, status: {observedGeneration: 2, conditions: [{type: Ready, status: "True"}]}}`},
		"custom, looked at for what it was":   {waits, `{apiVersion: example.test/v1, kind: Thing, metadata: {generation: 3}, status: {observedGeneration: 2}}`},
		"service of another group is custom":  {waits, `{apiVersion: serving.example.test/v1, kind: Service, status: {conditions: [{type: Ready, status: "False"}]}}`},
		"deployment of another group is none": {ready, `{apiVersion: example.test/v1, kind: Deployment, status: {conditions: [{type: Ready, status: "True"}]}}`},
	} {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(c.object), &o.Object), name)
		if o.GetAPIVersion() == "" {
			o.SetAPIVersion(map[string]string{"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}[o.GetKind()])
			if o.GetAPIVersion() == "" {
				o.SetAPIVersion("v1")
			}
		}
		raw, err := o.MarshalJSON() // as it is read: numbers are whole ones
		require.NoError(t, err, name)
		require.NoError(t, o.UnmarshalJSON(raw), name)
		s := standingOf(o)
		got := waits
		switch {
		case s.ready:
			got = ready
		case s.broken != "":
			got = broken
		case s.serves:
			got = serves
		}
		require.Equal(t, c.want, got, "%s: %+v", name, s)
		require.True(t, s.ready || s.broken+s.text != "", name)
	}
}
