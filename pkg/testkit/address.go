package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress returns an address on loopback that nobody listens on. It lies
// below the range that the system takes the ports of outgoing connections from:
// one of those could have it before the program listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000)))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatalf("giving a port back: %v", err)
		}
		return listener.Addr().String()
	}
	t.Fatal("no free port")
	return ""
}
