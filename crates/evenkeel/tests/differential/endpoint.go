// An HTTP endpoint of Go's net/http: answers each request with its method and target, and prints those as it sees them.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	seen := func(w http.ResponseWriter, r *http.Request) {
		line := r.Method + " " + r.RequestURI
		fmt.Println(line)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, line)
	}
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[1], http.HandlerFunc(seen)))
	os.Exit(1)
}
