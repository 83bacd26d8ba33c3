package serve_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/muniment/muniment/deploy/standins/serve"
)

func TestHTTPSaysWhenItIsReadyAndStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve.HTTP(ctx, in, "thing", "127.0.0.1:0", http.NotFoundHandler())
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ready := strings.CutPrefix(strings.TrimSpace(line), "thing: ready on ")
	if err != nil || !ready {
		t.Fatalf("the line %q, %v", line, err)
	}
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func TestHTTPRefusesAddresses(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, says := range map[string]string{
		"0.0.0.0:0":             "loopback only",
		":8080":                 "loopback only",
		"example.org:80":        "loopback only",
		"127.0.0.1":             "host:port",
		taken.Addr().String():   "choose another address with -listen",
		"not an address at all": "host:port",
	} {
		err := serve.HTTP(t.Context(), io.Discard, "thing", address, http.NotFoundHandler())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q in it", address, err, says)
		}
	}
}
