package kubetest

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Rights are what an account may do, beside what everybody may.
type Rights struct {
	Role        []rbacv1.PolicyRule // in its namespace
	ClusterRole []rbacv1.PolicyRule // in all of the cluster
}

// Account is a service account with a token. The Role and the RoleBinding of its rights have its name; the ClusterRole and the
// ClusterRoleBinding that of the namespace, a dash, and its name.
type Account struct {
	Name   string
	Config *rest.Config // with the token, without limits of the client's own
	Client *kubernetes.Clientset
}

// Account makes a service account that may do what the rules say. It returns once they hold.
func (n *Namespace) Account(t testing.TB, name string, r Rights) *Account {
	t.Helper()
	ctx, core, rbac := t.Context(), n.Client.CoreV1(), n.Client.RbacV1()
	_, err := core.ServiceAccounts(n.Name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	who := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: n.Name, Name: name}}
	if len(r.Role) > 0 {
		meta := metav1.ObjectMeta{Name: name}
		_, err := rbac.Roles(n.Name).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: r.Role}, metav1.CreateOptions{})
		must(t, err)
		_, err = rbac.RoleBindings(n.Name).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	if len(r.ClusterRole) > 0 {
		n.clusterRole(t, n.Name+"-"+name, who, r.ClusterRole)
	}
	token, err := core.ServiceAccounts(n.Name).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)

	a := &Account{Name: name, Config: rest.AnonymousClientConfig(n.Config)}
	a.Config.BearerToken, a.Config.QPS = token.Status.Token, -1
	a.Client, err = kubernetes.NewForConfig(a.Config)
	must(t, err)
	for _, rule := range r.Role {
		a.await(t, n.Name, rule)
	}
	for _, rule := range r.ClusterRole {
		a.await(t, "", rule)
	}
	return a
}

func (n *Namespace) clusterRole(t testing.TB, name string, who []rbacv1.Subject, rules []rbacv1.PolicyRule) {
	t.Helper()
	rbac, meta := n.Client.RbacV1(), metav1.ObjectMeta{Name: name}
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	must(t, err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { // they do not go with the namespace
		ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second, errors.New("the control plane does not answer"))
		defer cancel()
		_ = rbac.ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})
		_ = rbac.ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// await waits until the API server's authorizer, which watches the roles, has seen a rule: that takes milliseconds.
func (a *Account) await(t testing.TB, namespace string, rule rbacv1.PolicyRule) {
	t.Helper()
	first := func(of []string) string {
		if len(of) == 0 {
			return ""
		}
		return of[0]
	}
	ask := &authorizationv1.SelfSubjectAccessReview{}
	if len(rule.NonResourceURLs) > 0 {
		ask.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: first(rule.Verbs), Path: first(rule.NonResourceURLs)}
	} else {
		resource, sub, _ := strings.Cut(first(rule.Resources), "/")
		ask.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: first(rule.Verbs), Group: first(rule.APIGroups), Resource: resource, Subresource: sub,
			Name: first(rule.ResourceNames),
		}
	}
	until(t, "the account may do what it was allowed", func(ctx context.Context) (bool, error) {
		answer, err := a.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
}

// WriteKubeconfig writes a file that says what the config does, and returns its path. It goes with the test.
func WriteKubeconfig(t testing.TB, config *rest.Config) string {
	t.Helper()
	const name = "testkube"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	return path
}
