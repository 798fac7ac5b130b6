// Go's net/http as an endpoint: ADDRESS PROTOCOL [CERTIFICATE KEY], where the protocol is h1, h2c or h2 (over TLS).
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-seen", r.Proto)
		fmt.Fprint(w, "hello")
	})
	mux.HandleFunc("/hash", func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		if _, err := io.Copy(hash, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "%x", hash.Sum(nil))
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		// Or HTTP/1 would read the request to its end first; HTTP/2 always is full duplex.
		_ = control.EnableFullDuplex()
		w.WriteHeader(200)
		part := make([]byte, 64<<10)
		for {
			n, err := r.Body.Read(part)
			if _, failed := w.Write(part[:n]); failed != nil || (err != nil && err != io.EOF) {
				panic(http.ErrAbortHandler)
			}
			_ = control.Flush()
			if err == io.EOF {
				return
			}
		}
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum, X-Own")
		hash := sha256.New()
		if _, err := io.Copy(hash, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "see the trailers")
		w.Header().Set("X-Sum", r.Trailer.Get("X-Sum"))
		w.Header().Set("X-Own", fmt.Sprintf("%x", hash.Sum(nil)))
	})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(os.Args[2] == "h1")
	protocols.SetUnencryptedHTTP2(os.Args[2] == "h2c")
	protocols.SetHTTP2(os.Args[2] == "h2")
	server := &http.Server{Addr: os.Args[1], Handler: mux, Protocols: protocols}
	if os.Args[2] == "h2" {
		fmt.Fprintln(os.Stderr, server.ListenAndServeTLS(os.Args[3], os.Args[4]))
	} else {
		fmt.Fprintln(os.Stderr, server.ListenAndServe())
	}
	os.Exit(1)
}
