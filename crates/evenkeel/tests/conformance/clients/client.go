// Go's net/http as a client: DOOR URL CA FILE CASES; prints a line for each case. With `../tools/quic.go`, which is built with a module,
// it speaks HTTP/3.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func must(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func sum(bytes []byte) string { return fmt.Sprintf("%x", sha256.Sum256(bytes)) }

var client *http.Client

// Transports of doors that net/http does not speak.
var transports = map[string]func(*tls.Config) http.RoundTripper{}

// Cases of such doors alone.
var others = map[string]func(door, host, url string, config *tls.Config){}

func do(method, url string, body io.Reader, trailer http.Header) (*http.Response, []byte) {
	// The test gives up before, but for 100 MB where a fifth is lost.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	must(err)
	request.Trailer = trailer
	if trailer != nil {
		request.ContentLength = -1
		// Trailers come only to who asks for them.
		request.Header.Set("TE", "trailers")
	}
	response, err := client.Do(request)
	must(err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(err)
	return response, content
}

func main() {
	door, url, ca, file := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	pem, err := os.ReadFile(ca)
	must(err)
	content, err := os.ReadFile(file)
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(strings.HasPrefix(door, "h1"))
	protocols.SetHTTP2(door == "h2")
	protocols.SetUnencryptedHTTP2(door == "h2c")
	client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: protocols, ExpectContinueTimeout: time.Second,
	}}
	if made := transports[door]; made != nil {
		client.Transport = made(&tls.Config{RootCAs: roots})
	}
	for _, name := range strings.Split(os.Args[5], ",") {
		switch name {
		case "get":
			response, body := do("GET", url+"/get", nil, nil)
			version := strings.TrimSuffix(strings.TrimPrefix(response.Proto, "HTTP/"), ".0")
			fmt.Println("get", response.StatusCode, version, string(body), response.Header.Get("x-seen"))
		case "post":
			response, body := do("POST", url+"/hash", bytes.NewReader(content), nil)
			fmt.Println("post", response.StatusCode, string(body))
		case "echo":
			// Without a length: the type hides it.
			response, body := do("POST", url+"/echo", struct{ io.Reader }{bytes.NewReader(content)}, nil)
			fmt.Println("echo", response.StatusCode, sum(body))
		case "kept":
			good := 0
			for range 20 {
				if response, body := do("GET", url+"/get", nil, nil); response.StatusCode == 200 && string(body) == "hello" {
					good++
				}
			}
			fmt.Println("kept", good)
		case "stream":
			stream(url)
		case "trailers":
			text := []byte("with trailers")
			trailer := http.Header{"X-Sum": {sum(text)}}
			response, _ := do("POST", url+"/trailers", bytes.NewReader(text), trailer)
			fmt.Println("trailers", response.StatusCode, response.Trailer.Get("X-Sum"), response.Trailer.Get("X-Own"))
		default:
			others[name](door, strings.TrimPrefix(url, "https://"), url, &tls.Config{RootCAs: roots})
		}
	}
}

// Sends a piece only when the one before has come back.
func stream(url string) {
	reader, writer := io.Pipe()
	request, err := http.NewRequest("POST", url+"/echo", reader)
	must(err)
	go writer.Write([]byte("piece 0\n"))
	response, err := client.Do(request)
	must(err)
	count := 0
	for ; count < 50; count++ {
		want := fmt.Sprintf("piece %d\n", count)
		got := make([]byte, len(want))
		_, err := io.ReadFull(response.Body, got)
		must(err)
		if string(got) != want {
			fmt.Println("stream: another piece came back:", string(got))
			return
		}
		if count < 49 {
			fmt.Fprintf(writer, "piece %d\n", count+1)
		}
	}
	writer.Close()
	rest, err := io.ReadAll(response.Body)
	must(err)
	fmt.Println("stream", response.StatusCode, count, len(rest))
}
