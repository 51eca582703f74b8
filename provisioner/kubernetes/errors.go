package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/provisioner"
)

var (
	// errNotServed: the cluster has no such kind, or not in this version. That says nothing of objects. It is mended at the cluster, so it
	// is tried again.
	errNotServed = errors.New("not served")
	// errMoved: what was seen is no more so. To look again is all there is to do.
	errMoved = errors.New("changed meanwhile")
	// errTaken: an object of this name is somebody else's.
	errTaken = errors.New("taken")
)

// A failing is what a request came to: its class, and what the API server said.
type failing struct {
	class error // of provisioner, or of ours; nil: it may pass
	text  string
	cause error
}

func (f *failing) Error() string { return f.text }

// Unwrap gives the class and the cause. The text of the cause may hold what must not be shown.
func (f *failing) Unwrap() []error {
	var all []error
	for _, err := range []error{f.class, f.cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

func says(class error, text string) error { return &failing{class: class, text: line(text)} }

func unavailable(what string, err error) error {
	return &failing{class: provisioner.ErrUnavailable, text: line(what + ": " + err.Error()), cause: err}
}

// classed is the one place that decides what an error of the API server means.
func classed(ctx context.Context, what string, err error) error {
	var told *failing
	if errors.As(err, &told) {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx)) // the caller's matter
	}
	text, class := classOf(err)
	return &failing{class: class, text: line(what + ": " + text), cause: err}
}

func classOf(err error) (text string, class error) {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		var request *url.Error
		var network net.Error
		if strings.Contains(err.Error(), "would exceed context deadline") {
			return "too much is asked of the cluster for qps and burst: " + err.Error(), provisioner.ErrUnavailable
		}
		if errors.As(err, &request) || errors.As(err, &network) {
			return "the cluster does not answer: " + err.Error(), provisioner.ErrUnavailable
		}
		return err.Error(), nil
	}
	s := status.Status()
	has := func(text string) bool { return strings.Contains(s.Message, text) }
	switch {
	case s.Code == http.StatusUnauthorized:
		return "the cluster does not know our credentials: " + s.Message, provisioner.ErrUnavailable
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "the namespace is being deleted: " + s.Message, provisioner.ErrUnavailable
	case s.Code == http.StatusForbidden:
		return forbidden(s)
	case s.Code == http.StatusNotFound && s.Details != nil && s.Details.Kind == "namespaces":
		return "the namespace is not there: " + s.Message, provisioner.ErrUnavailable
	case s.Code == http.StatusNotFound && (s.Details == nil || s.Details.Name == ""):
		return "the cluster does not have this kind or version: " + s.Message, errNotServed
	case s.Code == http.StatusNotFound, s.Code == http.StatusConflict, s.Code == http.StatusGone:
		return s.Message, nil
	case s.Code == http.StatusTooManyRequests, s.Code == http.StatusServiceUnavailable, s.Code == http.StatusGatewayTimeout,
		s.Code == http.StatusBadGateway, s.Reason == metav1.StatusReasonServerTimeout, s.Reason == metav1.StatusReasonTimeout:
		return s.Message, provisioner.ErrUnavailable
	case s.Code >= 400 && s.Code < 500:
		return s.Message, provisioner.ErrInvalid
	case has("failed to create typed patch object"), has("failed to create manager for"), has("duplicate entries for key"):
		return s.Message, provisioner.ErrInvalid // a 500 whose cause is the manifest
	}
	return s.Message, nil
}

// forbidden takes apart what 403 is used for.
func forbidden(s metav1.Status) (text string, class error) {
	switch {
	case strings.Contains(s.Message, exceededQuota):
		return s.Message, provisioner.ErrNoCapacity
	case strings.Contains(s.Message, "status unknown for quota"):
		return s.Message, nil // it was made a moment ago
	case strings.Contains(s.Message, `User "`) && strings.Contains(s.Message, " cannot "):
		return "our account is not permitted to: " + s.Message, provisioner.ErrUnavailable
	}
	return s.Message, provisioner.ErrInvalid // by admission: it is what was asked for that is refused
}

const (
	exceededQuota = "exceeded quota: "
	unmetQuota    = "failed quota: " // it wants requests or limits that the template does not set
)

// isGone: this very object is not there, whereas its kind is.
func isGone(err error) bool {
	return err != nil && apierrors.IsNotFound(err) && !errors.Is(err, errNotServed) && !errors.Is(err, provisioner.ErrUnavailable)
}

func isConflict(err error) bool { return err != nil && apierrors.IsConflict(err) }

// isDenied: our account lacks a right.
func isDenied(err error) bool {
	return err != nil && apierrors.IsForbidden(err) && errors.Is(err, provisioner.ErrUnavailable)
}

// stale: perhaps credentials were replaced on disk.
func stale(err error) bool {
	var request *url.Error
	return apierrors.IsUnauthorized(err) || errors.As(err, &request)
}

// discreet takes the values out of what is said about a Secret.
func discreet(err error, kind string) error {
	var told *failing
	status := apierrors.APIStatus(nil)
	if kind != "Secret" || !errors.As(err, &told) || !errors.As(err, &status) || isConflict(err) {
		return err
	}
	if apierrors.IsForbidden(err) && (errors.Is(err, provisioner.ErrUnavailable) || errors.Is(err, provisioner.ErrNoCapacity)) {
		return err // of rights and quotas: whoever else refuses it may quote it
	}
	s := status.Status()
	fields := ""
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if c.Field != "" {
				fields += ", " + c.Field
			}
		}
	}
	text := fmt.Sprintf("the cluster refuses a Secret with %d %s", s.Code, s.Reason)
	if fields != "" {
		text += ", for " + strings.TrimPrefix(fields, ", ")
	}
	return &failing{class: told.class, text: text}
}

// line is text on one line, short enough to be stored.
func line(text string) string {
	const most = 2000
	text = provisioner.Scrub(strings.Join(strings.Fields(strings.ReplaceAll(text, "\x00", "")), " "))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
