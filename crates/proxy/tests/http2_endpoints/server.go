// An endpoint that speaks HTTP/2 without TLS, or, with a certificate and its key, HTTP/1.1 and HTTP/2 over it: by the standard
// library of Go.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	protocols := new(http.Protocols)
	isPlain := len(os.Args) == 2
	protocols.SetUnencryptedHTTP2(isPlain)
	protocols.SetHTTP1(!isPlain)
	protocols.SetHTTP2(!isPlain)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			w.Header().Set("Trailer", "X-Sum")
			n, _ := io.Copy(w, r.Body)
			w.Header().Set("X-Sum", fmt.Sprint(n, r.Trailer.Get("X-Sent")))
		case "/hints":
			w.Header().Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(w, "hinted")
		case "/early":
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		case "/abort":
			fmt.Fprint(w, "part")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/chat":
			// Only HTTP/1.1 lets a handler have the connection.
			hijacker, isHTTP1 := w.(http.Hijacker)
			if !isHTTP1 {
				w.WriteHeader(http.StatusNotImplemented)
				return
			}
			conn, both, err := hijacker.Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			both.Flush()
			io.CopyN(conn, both, 5)
		case "/last":
			// The connection ends behind this.
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, "last")
		default:
			fmt.Fprint(w, r.Proto, " ", r.Method, " ", r.Host, " ", strings.Join(r.Header["X-Own"], "|"))
		}
	})
	server := http.Server{Addr: os.Args[1], Handler: handler, Protocols: protocols}
	if isPlain {
		panic(server.ListenAndServe())
	}
	panic(server.ListenAndServeTLS(os.Args[2], os.Args[3]))
}
