package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serve runs the gateway on a loopback port and returns its address and a way to
// end it.
func (b *bundle) serve(t *testing.T) (address string, stop func(), ended <-chan error) {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.gateway.Serve(ctx, lis) }()
	t.Cleanup(cancel)
	return lis.Addr().String(), cancel, done
}

func get(t *testing.T, client *http.Client, address string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address+"/api/orders/1", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer token")
	return client.Do(req)
}

func TestT46DrainsBeforeItStops(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.settings.DrainDelay = 300 * time.Millisecond
	b.wait = make(chan struct{})
	address, stop, ended := b.serve(t)

	// One request is in flight when the end is announced.
	inFlight := make(chan error, 1)
	go func() {
		resp, err := get(t, &http.Client{Transport: &http.Transport{}}, address)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		inFlight <- err
	}()
	require.Eventually(t, func() bool { return b.callCount() == 1 }, 5*time.Second, time.Millisecond)
	require.NoError(t, b.gateway.Ready())
	stop()
	require.Eventually(t, func() bool { return b.gateway.Ready() != nil }, 5*time.Second, time.Millisecond, "not ready first")

	// It still serves, and tells its clients to leave.
	close(b.wait)
	resp, err := get(t, &http.Client{Transport: &http.Transport{}}, address)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.True(t, resp.Close)

	require.NoError(t, <-inFlight)
	require.NoError(t, <-ended)
	_, err = get(t, &http.Client{Transport: &http.Transport{}}, address)
	require.Error(t, err)
}

func TestT46StopsAtTheLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.settings.ShutdownTimeout = 200 * time.Millisecond
	b.wait = make(chan struct{})
	defer close(b.wait)
	address, stop, ended := b.serve(t)
	go func() {
		if resp, err := get(t, &http.Client{Transport: &http.Transport{}}, address); err == nil {
			resp.Body.Close()
		}
	}()
	require.Eventually(t, func() bool { return b.callCount() == 1 }, 5*time.Second, time.Millisecond)
	stop()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("a request that never ends kept the gateway")
	}
}

// Many clients on kept-alive connections see no failure as long as they leave
// when they are told to.
func TestT46NoRequestFailsWhileDraining(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.settings.DrainDelay = 400 * time.Millisecond
	address, stop, ended := b.serve(t)
	var served atomic.Int64
	failures := make(chan error, 8)
	for range 8 {
		go func() {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			for b.gateway.Ready() == nil {
				resp, err := get(t, client, address)
				if err != nil {
					failures <- err
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					failures <- errors.New(resp.Status)
					return
				}
				served.Add(1)
			}
			failures <- nil
		}()
	}
	require.Eventually(t, func() bool { return served.Load() > 100 }, 10*time.Second, time.Millisecond)
	stop()
	for range 8 {
		require.NoError(t, <-failures)
	}
	require.NoError(t, <-ended)
}

func TestAClientThatGoesAwayEndsTheCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.wait = make(chan struct{})
	defer close(b.wait)
	address, _, _ := b.serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/api/orders", strings.NewReader(`{}`))
		if err != nil {
			ended <- err
			return
		}
		req.Header.Set("Authorization", "Bearer token")
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		ended <- err
	}()
	require.Eventually(t, func() bool { return b.callCount() == 1 }, 5*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool { return b.logs.FilterMessage("request").Len() == 1 }, 5*time.Second, time.Millisecond)
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer lis.Close()
	b.gateway.settings.Address = lis.Addr().String()
	require.ErrorContains(t, b.gateway.Run(t.Context()), "HTTP_ADDRESS")
}

// What net/http would answer by itself, it answers without our router.
func TestAsteriskIsNoPath(t *testing.T) {
	t.Parallel()
	b := setup(t)
	address, _, _ := b.serve(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "OPTIONS * HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n")
	reply, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(reply), "404 Not Found")
	require.Contains(t, string(reply), `{"error":"not found"}`)
}
