package process

import (
	"context"
	"fmt"
	"net"
	"net/http"
)

// Answers is a health check for Spec.Ready: GET url answers 200.
func Answers(url string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	}
}

// FreeAddresses returns n loopback addresses that nobody listens on. They are
// all held open until the last is found, so that no two are the same.
func FreeAddresses(n int) ([]string, error) {
	addresses := make([]string, 0, n)
	for range n {
		lis, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // done before a context could end
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer lis.Close()
		addresses = append(addresses, lis.Addr().String())
	}
	return addresses, nil
}
