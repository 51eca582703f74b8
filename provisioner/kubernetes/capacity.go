package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"berth/provisioner"
)

// Check asks the cluster for its version, what our account may not do of what the templates need, what quotas leave, and how much room
// the nodes have, where that may be read.
func (k *Kubernetes) Check(ctx context.Context) (provisioner.Capacity, error) {
	var c provisioner.Capacity
	if err := k.installed(ctx); err != nil {
		return c, err
	}
	v, err := getJSON[version.Info](ctx, k.cluster, "ask for the version", "/version")
	if err != nil {
		return c, asUnavailable(ctx, err)
	}
	denied, err := k.denied(ctx)
	if err != nil {
		return c, asUnavailable(ctx, err)
	}
	if len(denied) > 0 {
		c.Problems = append(c.Problems, fmt.Sprintf("our account is not permitted to: %s (Kubernetes %s)", strings.Join(denied, "; "), v.GitVersion))
	}
	anchors, err := k.cluster.list(ctx, kindConfigMap, k.mark())
	switch {
	case isDenied(err):
	case err != nil:
		return c, asUnavailable(ctx, err)
	default:
		c.Used = new(k.used(anchors))
	}
	quotas, err := k.cluster.list(ctx, kindQuota, "")
	switch {
	case isDenied(err):
		c.Problems = append(c.Problems, "quotas are unknown: not permitted")
	case err != nil:
		return c, asUnavailable(ctx, err)
	}
	for i := range quotas {
		c.Problems = append(c.Problems, nearlyUsed(&quotas[i])...)
	}
	free, stuck, err := k.headroom(ctx)
	switch {
	case isDenied(err):
		c.Problems = append(c.Problems, "headroom unknown: not permitted")
	case err != nil:
		return c, asUnavailable(ctx, err)
	case c.Used != nil:
		c.Slots = new(*c.Used + free)
	}
	if stuck > 0 {
		c.Problems = append(c.Problems, fmt.Sprintf("%d pods of ours find no node", stuck))
	}
	return c, nil
}

// asUnavailable: a check has no single resource to blame.
func asUnavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return &failing{class: provisioner.ErrUnavailable, text: line(err.Error())}
}

// used are the slots of what is there, by its anchors.
func (k *Kubernetes) used(anchors []unstructured.Unstructured) (slots int) {
	for i := range anchors {
		if o := &anchors[i]; k.mine(o) && isAnchor(o) {
			text, _, _ := unstructured.NestedString(o.Object, "data", "slots")
			n, _ := strconv.Atoi(text)
			slots += max(n, 0)
		}
	}
	return slots
}

// A right is a verb on a resource.
type right struct{ group, resource, verb string }

func (r right) String() string {
	name := r.resource
	if r.group != "" {
		name += "." + r.group
	}
	return r.verb + " " + name
}

// needed is what the templates need, sorted.
func (k *Kubernetes) needed(ctx context.Context) ([]right, error) {
	all := map[right]bool{}
	add := func(kind schema.GroupVersionKind, verbs ...string) error {
		in, err := k.cluster.resource(ctx, kind)
		if err != nil {
			return err
		}
		for _, verb := range verbs {
			all[right{in.Group, in.Resource, verb}] = true
		}
		return nil
	}
	var first error
	for _, kind := range k.coreKinds() {
		first = cmp.Or(first, add(kind, "get", "list", "watch", "create", "patch", "delete"))
	}
	for _, kind := range []schema.GroupVersionKind{kindPod, kindEvent, kindReplicas} {
		first = cmp.Or(first, add(kind, "list", "watch"))
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b right) int { return cmp.Compare(a.String(), b.String()) }), first
}

// denied is what our account may not do of it. One question tells what is permitted for sure; what is not in its answer is asked for one
// by one, because it need not be complete.
func (k *Kubernetes) denied(ctx context.Context) ([]string, error) {
	var problems []string
	rights, err := k.needed(ctx)
	if err != nil {
		problems = append(problems, err.Error())
	}
	rules, err := postJSON(ctx, k.cluster, "ask for our rights", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", authorizationv1.SelfSubjectRulesReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectRulesReview"},
		Spec:     authorizationv1.SelfSubjectRulesReviewSpec{Namespace: k.spec.namespace},
	})
	if err != nil {
		return nil, err
	}
	rights = slices.DeleteFunc(rights, func(r right) bool { return permits(rules.Status.ResourceRules, r) })
	answers := make([]bool, len(rights))
	err = sideBySide(len(rights), func(i int) error {
		r := rights[i]
		answer, err := postJSON(ctx, k.cluster, "ask for our rights", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: k.spec.namespace, Group: r.group, Resource: r.resource, Verb: r.verb,
			}},
		})
		answers[i] = answer.Status.Allowed
		return err
	})
	for i, r := range rights {
		if !answers[i] {
			problems = append(problems, r.String())
		}
	}
	return problems, err
}

func permits(rules []authorizationv1.ResourceRule, r right) bool {
	has := func(list []string, name string) bool {
		return slices.Contains(list, name) || slices.Contains(list, "*")
	}
	return slices.ContainsFunc(rules, func(rule authorizationv1.ResourceRule) bool {
		return len(rule.ResourceNames) == 0 && has(rule.Verbs, r.verb) && has(rule.APIGroups, r.group) && has(rule.Resources, r.resource)
	})
}

// nearlyUsed are the lines of a quota of which less than a fifth is left.
func nearlyUsed(o *unstructured.Unstructured) (all []string) {
	hard, _, _ := unstructured.NestedStringMap(o.Object, "status", "hard")
	used, _, _ := unstructured.NestedStringMap(o.Object, "status", "used")
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		most, err := resource.ParseQuantity(hard[name])
		if err != nil {
			continue
		}
		has, err := resource.ParseQuantity(used[name])
		if err != nil || has.AsApproximateFloat64() < 0.8*most.AsApproximateFloat64() {
			continue
		}
		left := most.DeepCopy()
		left.Sub(has)
		all = append(all, fmt.Sprintf("quota %s: %s of %s of %s used, %s left", o.GetName(), has.String(), most.String(), name, left.String()))
	}
	return all
}

// headroom is how many slots the nodes have room for, and how many pods of ours find none.
func (k *Kubernetes) headroom(ctx context.Context) (free, stuck int, err error) {
	nodes, err := k.everywhere(ctx, kindNode)
	if err != nil {
		return 0, 0, err
	}
	pods, err := k.everywhere(ctx, kindPod)
	if err != nil {
		return 0, 0, err
	}
	type room struct{ cpu, memory, pods int64 }
	left := map[string]*room{}
	for _, o := range nodes {
		var n corev1.Node
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &n) != nil || n.Spec.Unschedulable {
			continue
		}
		a := n.Status.Allocatable
		left[n.Name] = &room{a.Cpu().MilliValue(), a.Memory().Value(), a.Pods().Value()}
	}
	for _, o := range pods {
		var p corev1.Pod
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p) != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if p.Spec.NodeName == "" && p.Namespace == k.spec.namespace && p.Labels[LabelProvisioner] == k.spec.name {
			stuck++
		}
		n := left[p.Spec.NodeName]
		if n == nil {
			continue
		}
		n.pods--
		for _, c := range p.Spec.Containers {
			n.cpu -= c.Resources.Requests.Cpu().MilliValue()
			n.memory -= c.Resources.Requests.Memory().Value()
		}
	}
	for _, n := range left {
		fits := min(n.cpu/max(int64(k.spec.slot.CPU)*1000, 1), n.memory/max(int64(k.spec.slot.MemoryGB)*1e9, 1), n.pods)
		free += int(max(fits, 0))
	}
	return free, stuck, nil
}

// everywhere lists objects of the whole cluster.
func (k *Kubernetes) everywhere(ctx context.Context, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	in, err := k.cluster.resource(ctx, kind)
	if err != nil {
		return nil, err
	}
	return k.cluster.listIn(ctx, "", in, kind.Kind, metav1.ListOptions{})
}
