// Go's net/http: a ServeMux, and behind it the cleaned URL.Path, as file servers use it.
package main

import (
	"fmt"
	"net/http"
	"os"
	"path"
	"strings"
)

func main() {
	serve := func(w http.ResponseWriter, r *http.Request) {
		if name := path.Clean("/" + r.URL.Path); name == "/admin" || strings.HasPrefix(name, "/admin/") {
			fmt.Fprint(w, "protected")
			return
		}
		fmt.Fprint(w, "open")
	}
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[1], http.HandlerFunc(serve)))
	os.Exit(1)
}
