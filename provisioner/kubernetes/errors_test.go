package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth/provisioner"
)

func TestClasses(t *testing.T) {
	t.Parallel()
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	forbidden := func(why string) error { return apierrors.NewForbidden(claims, "data", errors.New(why)) }
	terminating := apierrors.NewForbidden(claims, "data", errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	unserved := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true)
	tests := map[string]struct {
		reason string
		err    error
		class  error // nil: of none
		gone   bool
	}{
		"credentials": {"the provisioner's matter", apierrors.NewUnauthorized("who are you"), provisioner.ErrUnavailable, false},
		"rights":      {"the provisioner's matter", forbidden(`User "u" cannot create resource "x"`), provisioner.ErrUnavailable, false},
		"quota":       {"waits for room", forbidden("exceeded quota: small, requested: pods=1"), provisioner.ErrNoCapacity, false},
		"quota unmet": {"the template's fault", forbidden("failed quota: small: must specify cpu"), provisioner.ErrInvalid, false},
		"new quota":   {"passes at once", forbidden("status unknown for quota: small"), nil, false},
		"no growing":  {"never a matter of rights", forbidden("the storageclass that provisions the pvc must support resize"), provisioner.ErrInvalid, false},
		"terminating": {"nothing can be made there", terminating, provisioner.ErrUnavailable, false},
		"absent":      {"an object that is not there", apierrors.NewNotFound(claims, "data"), nil, true},
		"unserved":    {"a version that is not there says nothing of objects", unserved, errNotServed, false},
		"namespace":   {"nothing can be made there", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), provisioner.ErrUnavailable, false},
		"conflict":    {"look again", apierrors.NewConflict(claims, "data", errors.New("modified")), nil, false},
		"overload":    {"the cluster's matter", apierrors.NewTooManyRequests("slow down", 9), provisioner.ErrUnavailable, false},
		"starting":    {"the cluster's matter", apierrors.NewServiceUnavailable("not yet"), provisioner.ErrUnavailable, false},
		"slow":        {"the cluster's matter", apierrors.NewTimeoutError("etcd", 1), provisioner.ErrUnavailable, false},
		"invalid":     {"never works", apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "s", nil), provisioner.ErrInvalid, false},
		"bad request": {"never works", apierrors.NewBadRequest("strict decoding error"), provisioner.ErrInvalid, false},
		"manifest":    {"a 500 that never works", &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "failed to create typed patch object: duplicate"}}, provisioner.ErrInvalid, false},
		"internal":    {"may pass", apierrors.NewInternalError(errors.New("failed calling webhook")), nil, false},
		"network":     {"the cluster's matter", &url.Error{Op: "Get", URL: "https://c", Err: errors.New("connection refused")}, provisioner.ErrUnavailable, false},
		"other":       {"may pass", errors.New("unexpected"), nil, false},
	}
	all := []error{provisioner.ErrUnavailable, provisioner.ErrInvalid, provisioner.ErrNoCapacity, errNotServed}
	for name, tt := range tests {
		err := classed(t.Context(), "try", tt.err)
		for _, class := range all {
			require.Equal(t, class == tt.class, errors.Is(err, class), "%s: %s: %v: %v", name, tt.reason, class, err) //nolint:errorlint // the sentinels themselves
		}
		require.Equal(t, tt.gone, isGone(err), name)
		require.NotContains(t, err.Error(), "\n", name)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := classed(ended, "try", &url.Error{Op: "Get", URL: "https://c", Err: context.Canceled})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, provisioner.ErrUnavailable, "the caller's matter")
}

// What the cluster says of a Secret may hold its values.
func TestErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	status := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Message: `data[key]: Invalid value: "hunter2"`, Details: &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Field: "data[key]", Message: `Invalid value: "hunter2"`}},
	}}}
	err := discreet(classed(t.Context(), "apply", status), "Secret")
	require.ErrorIs(t, err, provisioner.ErrInvalid)
	require.NotContains(t, err.Error(), "hunter2")
	require.Contains(t, err.Error(), "data[key]")
	for unwrapped := err; unwrapped != nil; unwrapped = errors.Unwrap(unwrapped) {
		require.False(t, strings.Contains(unwrapped.Error(), "hunter2"))
	}
}
