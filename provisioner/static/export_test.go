package static

import (
	"net/http"
	"time"

	"berth/provisioner"
)

// FactoryVia makes pools whose pings go through a transport.
func FactoryVia(store Store, via http.RoundTripper, ping, assign, probe time.Duration) provisioner.Factory {
	return factory(store, via, times{ping: ping, assign: assign, probe: probe})
}
