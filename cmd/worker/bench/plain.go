package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"berth/provisioner"
	"berth/provisioner/kubernetes"
)

// eachBound is how long one deployment may take to run before the cluster is held to be unable to.
const eachBound = 5 * time.Minute

// plain is the yardstick: it applies the objects that a deployment of Berth consists of, and waits for them, with nothing else in between.
// Its name is another one than the provisioner's that is measured, so that no watch of that one hears of its objects.
type plain struct {
	*ground
	spec *kubernetes.Spec
}

// warm is how many deployments come before those that count, on either side.
const warm = 3

// plain has it applied what does not count yet. What the cluster refuses is told by that.
func (g *ground) plain(ctx context.Context) (*plain, error) {
	spec, err := kubernetes.ReadSpec("yardstick", g.spec(g.set, g.namespace), provisioner.Options{})
	if err != nil {
		return nil, err
	}
	p := &plain{g, spec}
	for range warm {
		if _, err := p.run(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// render makes the objects of a new deployment.
func render(spec *kubernetes.Spec, installation string) (uuid.UUID, []kubernetes.Object, error) {
	r := provisioner.Resource{ID: uuid.New(), Type: provisioner.Runtime}
	args := provisioner.RuntimeArgs{Slots: 1, Version: "latest", Environment: "prod", Annotations: map[string]string{"organization": "bench", "project": "web"}}
	objects, err := spec.Render(r, args, installation)
	return r.ID, objects, err
}

func isDeployment(o kubernetes.Object) bool {
	return o.GetKind() == "Deployment" && o.GroupVersionKind().Group == appsv1.GroupName
}

// run takes from before the first object is applied until all Deployments are available. The watch by which that is heard is there before.
func (p *plain) run(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, eachBound, fmt.Errorf("not available after %v", eachBound))
	defer cancel()
	id, objects, err := render(p.spec, p.installation)
	if err != nil {
		return 0, err
	}
	waiting := map[string]bool{}
	for _, o := range objects {
		if isDeployment(o) {
			waiting[o.GetName()] = true
		}
	}
	w, err := p.apps.Deployments(p.namespace).Watch(ctx, metav1.ListOptions{LabelSelector: kubernetes.LabelResource + "=" + id.String()})
	if err != nil {
		return 0, fmt.Errorf("watch Deployments: %w", err)
	}
	defer w.Stop()
	began := time.Now()
	for _, o := range objects {
		if err := p.apply(ctx, o); err != nil {
			return 0, err
		}
	}
	said := "nothing"
	for len(waiting) > 0 {
		select {
		case e, ok := <-w.ResultChan():
			d, is := e.Object.(*appsv1.Deployment)
			if !ok || e.Type == watch.Error || !is {
				return 0, fmt.Errorf("watch Deployments of %s: the watch ended: %v", id, e.Object)
			}
			if ok, why := isAvailable(d); ok {
				delete(waiting, d.Name)
			} else {
				said = why
			}
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for the Deployment of %s: %w: its status says: %s", id, context.Cause(ctx), said)
		}
	}
	return time.Since(began), nil
}

// sideBySide is how many the yardstick applies and watches at a time where it does so at once.
const sideBySide = 20

// together runs so many, several at a time. Nothing that makes deployments on this cluster can be much faster.
func (p *plain) together(ctx context.Context, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(sideBySide)
	for range n {
		g.Go(func() error {
			_, err := p.run(ctx)
			return err
		})
	}
	return g.Wait()
}

// isAvailable reports whether it is, and what its status says of that.
func isAvailable(d *appsv1.Deployment) (ok bool, says string) {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable {
			return c.Status == corev1.ConditionTrue && d.Status.ObservedGeneration >= d.Generation, c.Message
		}
	}
	return false, "nothing"
}

func (p *plain) apply(ctx context.Context, o kubernetes.Object) error {
	in, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	_, err = p.dynamic.Resource(in).Namespace(p.namespace).Patch(ctx, o.GetName(), types.ApplyPatchType, raw, metav1.PatchOptions{FieldManager: "yardstick", Force: new(true)})
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

var errNoKubectl = errors.New("kubectl is not in PATH")

// kubectl is run with what a person would type: one apply of all objects, and one wait.
func (p *plain) kubectl(ctx context.Context) (time.Duration, error) {
	program, err := exec.LookPath("kubectl")
	if err != nil {
		return 0, errNoKubectl
	}
	_, objects, err := render(p.spec, p.installation)
	if err != nil {
		return 0, err
	}
	var names []string
	for _, o := range objects {
		if isDeployment(o) {
			names = append(names, "deployment/"+o.GetName())
		}
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return 0, fmt.Errorf("write objects for kubectl: %w", err)
	}
	began := time.Now()
	// The second does not read what is handed to both.
	for _, args := range [][]string{{"apply", "-f", "-"}, append([]string{"wait", "--for=condition=Available", "--timeout=" + eachBound.String()}, names...)} {
		cmd := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", p.options.Kubeconfig, "--namespace", p.namespace}, args...)...) //nolint:gosec // the person's own
		cmd.Stdin = bytes.NewReader(list)
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("kubectl %s: %w: %s", args[0], err, strings.Join(strings.Fields(string(out)), " "))
		}
	}
	return time.Since(began), nil
}
