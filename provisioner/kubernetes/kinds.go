package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// orders is what is applied first: what others mount, use or are protected by comes before them, what leads traffic to them last.
// A kind that is not in it, such as a custom one, comes before Services.
var orders = map[string]int{
	"ResourceQuota": 0, "LimitRange": 0, "ServiceAccount": 1, "Role": 1, "RoleBinding": 2, "ConfigMap": 3, "Secret": 3,
	"NetworkPolicy": 4, "PersistentVolumeClaim": 5, "Service": 7, "EndpointSlice": 7,
	"Pod": 8, "ReplicaSet": 8, "ReplicationController": 8, "Deployment": 8, "StatefulSet": 8, "DaemonSet": 8, "Job": 8, "CronJob": 8,
	"PodDisruptionBudget": 9, "HorizontalPodAutoscaler": 9, "Ingress": 10,
}

const customOrder = 6

func orderOf(kind string) int {
	if n, ok := orders[kind]; ok {
		return n
	}
	return customOrder
}

// sortObjects puts objects into the order in which they are applied.
func sortObjects(objects []Object) {
	slices.SortStableFunc(objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(orderOf(a.GetKind()), orderOf(b.GetKind())), cmp.Compare(a.Key, b.Key))
	})
}

// clusterKinds are the known kinds that are in no namespace.
var clusterKinds = []string{
	"Namespace", "Node", "PersistentVolume", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "StorageClass",
	"PriorityClass", "IngressClass", "RuntimeClass", "CSIDriver", "CSINode", "VolumeAttachment", "VolumeAttributesClass", "APIService",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "CertificateSigningRequest", "ClusterTrustBundle", "FlowSchema",
	"PriorityLevelConfiguration", "DeviceClass", "ResourceSlice", "ServiceCIDR", "IPAddress", "ComponentStatus",
}

// Names of some kinds have to be shorter than the cluster says when they are applied: what is made of them gets a longer one.
const (
	maxStatefulSet = 52 // its pods carry its name and 11 characters in a label
	maxCronJob     = 52 // its jobs carry its name and 11 characters
)

// nameFault says what is wrong with the name of an object.
func nameFault(kind, name string) string {
	switch {
	case kind == "StatefulSet" && len(name) > maxStatefulSet:
		return fmt.Sprintf("name %q has %d characters: the pods of a StatefulSet are refused if it has more than %d", name, len(name), maxStatefulSet)
	case kind == "CronJob" && len(name) > maxCronJob:
		return fmt.Sprintf("name %q has %d characters: a CronJob may have %d", name, len(name), maxCronJob)
	case kind == "Service":
		if why := validation.IsDNS1035Label(name); len(why) > 0 {
			return fmt.Sprintf("name %q: %s", name, why[0])
		}
	case kind == "Role" || kind == "RoleBinding":
		return "" // any name is
	}
	if why := validation.IsDNS1123Subdomain(name); len(why) > 0 {
		return fmt.Sprintf("name %q: %s", name, why[0])
	}
	return ""
}

// podTemplates are the paths of the templates of pods, and of what pods are made of, by kind.
var podTemplates = map[string][]string{
	"Deployment": {"spec.template"}, "ReplicaSet": {"spec.template"}, "StatefulSet": {"spec.template"}, "DaemonSet": {"spec.template"},
	"ReplicationController": {"spec.template"}, "Job": {"spec.template"},
	"CronJob": {"spec.jobTemplate", "spec.jobTemplate.spec.template"},
}

// at is the map at a path of dots; nil if there is none.
func at(tree map[string]any, path string) map[string]any {
	for _, key := range strings.Split(path, ".") {
		tree, _ = tree[key].(map[string]any)
	}
	return tree
}
