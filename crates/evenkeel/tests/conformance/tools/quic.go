// HTTP/3 of quic-go for the client of Go, beside which setup.sh builds this.
package main

import (
	"crypto/tls"
	"net/http"

	"github.com/quic-go/quic-go/http3"
)

func init() {
	transports["h3"] = func(config *tls.Config) http.RoundTripper { return &http3.Transport{TLSClientConfig: config} }
}
