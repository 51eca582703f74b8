package kubernetes

import (
	"net/http"

	"berth/provisioner"
)

// Through is [Factory] for who has to see what is asked of the cluster: each request goes through what via makes of the round tripper that
// sends it. To let connections be closed it has a method WrappedRoundTripper that returns that one.
func Through(ask Installation, via func(http.RoundTripper) http.RoundTripper) provisioner.Factory {
	return factory(ask, via, nil)
}
