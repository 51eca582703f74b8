package trials

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"berth/provisioner/kubernetes"
)

// clusters makes provisioners of clusters, all of one installation.
var clusters = kubernetes.Factory(func(context.Context) (string, error) { return "trial", nil })

// forwarded is the kubeconfig of a worker whose requests are forwarded. It is in the directory in which the worker was started, so
// that the specs of all are the same.
const forwarded = "kubeconfig"

const forwardedText = `apiVersion: v1
kind: Config
clusters: [{name: forwarded, cluster: {server: "http://%s"}}]
users: [{name: forwarded, user: {}}]
contexts: [{name: forwarded, context: {cluster: forwarded, user: forwarded}}]
current-context: forwarded
`

// forward has this process reach a cluster through itself: a proxy on loopback hands requests on, with an administrator's credentials,
// and holds them. What a worker sends waits there as it may wait in any network, and a signal that stops the worker stops the proxy.
func (w *worker) forward(administrator string) error {
	config, err := clientcmd.BuildConfigFromFlags("", administrator)
	if err != nil {
		return err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &held{transport, w},
		FlushInterval: -1, // a watch is heard as it happens
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	go func() { _ = server.Serve(listener) }() // as long as the process
	return os.WriteFile(forwarded, fmt.Appendf(nil, forwardedText, listener.Addr()), 0o600)
}

// held are requests, which stand still before they are sent and after they were answered if they write.
type held struct {
	next http.RoundTripper
	w    *worker
}

func (h *held) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Body == nil {
		return h.next.RoundTrip(r)
	}
	defer h.w.sends.begin()()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	what, ctx := written(r, body), r.Context()
	late := h.w.holds.pass(before, what, false)
	if late {
		ctx = context.WithoutCancel(ctx) // it is on its way, and nobody takes it back
	}
	r = r.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer, err := h.next.RoundTrip(r)
	if err == nil {
		h.w.log.Info("a request was answered", slog.String("what", what), slog.String("path", r.URL.Path), slog.Int("status", answer.StatusCode), slog.Bool("held", late))
	}
	h.w.holds.pass(answered, what, false)
	return answer, err
}

// written is what a request writes, such as "DELETE configmaps". Objects are made and changed by the same kind of PATCH, so it says
// which: "PATCH configmaps create", "PATCH configmaps change", or "PATCH persistentvolumeclaims merge" where single fields are changed.
func written(r *http.Request, body []byte) string {
	what := r.Method
	path := strings.Split(r.URL.Path, "/")
	if i := slices.Index(path, "namespaces"); i >= 0 && i+2 < len(path) {
		what += " " + path[i+2]
	}
	if r.Method != http.MethodPatch {
		return what
	}
	var o struct{ Metadata struct{ UID types.UID } }
	switch err := json.Unmarshal(body, &o); {
	case r.Header.Get("Content-Type") == string(types.MergePatchType):
		return what + " merge"
	case err == nil && o.Metadata.UID != "": // of what is there
		return what + " change"
	}
	return what + " create"
}
