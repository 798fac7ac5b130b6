// HTTP/3 of quic-go for the client of Go, beside which setup.sh builds this.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// Doors, and the versions of QUIC that are spoken there.
var versions = map[string]*quic.Config{
	"h3":   {Versions: []quic.Version{quic.Version1}},
	"h3v2": {Versions: []quic.Version{quic.Version2}},
}

func init() {
	for door, config := range versions {
		transports[door] = func(tls *tls.Config) http.RoundTripper {
			return &http3.Transport{TLSClientConfig: tls, QUICConfig: config.Clone()}
		}
	}
	others["early"] = early
}

// A cache of sessions that says when it has got one.
type sessions struct {
	tls.ClientSessionCache
	put chan struct{}
}

func (s sessions) Put(key string, state *tls.ClientSessionState) {
	s.ClientSessionCache.Put(key, state)
	if state != nil {
		select {
		case s.put <- struct{}{}:
		default:
		}
	}
}

// Resumes a session, and sends two requests with the first packets: one that may be repeated, and one that may not.
func early(door, host, url string, config *tls.Config) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cache := sessions{tls.NewLRUClientSessionCache(8), make(chan struct{}, 1)}
	config.ClientSessionCache = cache
	config.NextProtos = []string{http3.NextProtoH3}
	dial := func() (*quic.Conn, *http3.ClientConn) {
		conn, err := quic.DialAddrEarly(ctx, host, config, versions[door].Clone())
		must(err)
		return conn, new(http3.Transport).NewClientConn(conn)
	}
	send := func(client *http3.ClientConn, method, path string) *http3.RequestStream {
		request, err := http.NewRequestWithContext(ctx, method, url+path, nil)
		must(err)
		stream, err := client.OpenRequestStream(ctx)
		must(err)
		must(stream.SendRequestHeader(request))
		must(stream.Close())
		return stream
	}
	read := func(stream *http3.RequestStream) (int, string) {
		response, err := stream.ReadResponse()
		must(err)
		body, err := io.ReadAll(response.Body)
		must(err)
		return response.StatusCode, string(body)
	}
	conn, client := dial()
	read(send(client, "GET", "/get"))
	select {
	case <-cache.put:
	case <-ctx.Done():
		must(ctx.Err())
	}
	must(conn.CloseWithError(0x100, ""))
	conn, client = dial()
	// Both are sent before the handshake is complete.
	safe, unsafe := send(client, "GET", "/get"), send(client, "POST", "/get")
	status, body := read(safe)
	fmt.Println("early", status, body, conn.ConnectionState().Used0RTT)
	status, body = read(unsafe)
	fmt.Println("early post", status, body)
	must(conn.CloseWithError(0x100, ""))
}
