package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/testkit"
)

// SIGTERM under load: clients that go on to another replica when they are told
// to leave, or find the door closed, see no request fail. Stated: 200 requests a
// second.
func TestT46NoRequestFailsOnTheWayDown(t *testing.T) {
	t.Parallel()
	one := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1", "DRAIN_DELAY=1s", "SHUTDOWN_TIMEOUT=20s")
	two := one.replica(t)
	one.start(t)
	two.start(t)
	alice := one.issuer.Token("alice", "acme")

	const clients = 8
	perSecond := testkit.Soak(40, 200)
	var served atomic.Int64
	var toTwo atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}, Timeout: 20 * time.Second}
			tick := time.NewTicker(time.Second * clients / time.Duration(perSecond))
			defer tick.Stop()
			for at := one; ; {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				leave, err := me(client, at, alice)
				if errors.Is(err, syscall.ECONNREFUSED) && at == one {
					leave, err = me(client, two, alice) // the balancer's next choice
					at = two
				}
				if err != nil {
					t.Error(err)
					return
				}
				served.Add(1)
				if leave {
					at = two
				}
				if at == two {
					toTwo.Add(1)
				}
			}
		})
	}
	testkit.Eventually(t, 30*time.Second, func() (bool, string) { n := served.Load(); return n > 40, fmt.Sprint(n) })
	began := time.Now()
	if err := one.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := one.process.Wait(); err != nil {
		t.Errorf("the ledger ends with %v", err)
	}
	took := time.Since(began)
	before := toTwo.Load()
	testkit.Eventually(t, 30*time.Second, func() (bool, string) { n := toTwo.Load() - before; return n > clients, fmt.Sprint(n) })
	close(stop)
	group.Wait()
	t.Logf("%d requests served, %d of them by the other replica; going down took %s", served.Load(), toTwo.Load(), took)
	if took < time.Second || took > 20*time.Second {
		t.Errorf("going down took %s", took)
	}
}

// me asks one replica, and says whether it told its client to leave.
func me(client *http.Client, at *ledger, token string) (leave bool, err error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+at.http+"/api/me", http.NoBody)
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, errors.New(resp.Status)
	}
	return resp.Close, nil
}

// Clients that send half a request, or never read, do not keep the process
// beyond its limit; a second signal stops it at once.
func TestT46ExitsAtTheLimit(t *testing.T) {
	t.Parallel()
	const most = 25 * time.Second // a loaded machine takes its time beside the limit
	for name, signals := range map[string]int{"at the limit": 1, "at a second signal": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := map[int]string{1: "4s", 2: "60s"}[signals]
			l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1", "SHUTDOWN_TIMEOUT="+limit)
			l.start(t)
			alice := l.issuer.Token("alice", "acme")
			for _, half := range []string{
				"POST /api/crawls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + alice + "\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
				strings.Repeat("GET /api/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+alice+"\r\n\r\n", 500), // and reads no reply
			} {
				conn, err := net.Dial("tcp", l.http)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
				_, _ = io.WriteString(conn, half) // what does not fit is not sent
			}
			ended := make(chan error, 1)
			began := time.Now()
			for range signals {
				if err := l.process.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				time.Sleep(200 * time.Millisecond) // two signals at once are one
			}
			go func() { ended <- l.process.Wait() }()
			select {
			case <-ended:
				t.Logf("ended after %s", time.Since(began))
			case <-time.After(most):
				_ = l.process.Process.Kill()
				<-ended
				t.Fatalf("still running %s after the signal\n%s", most, l.output)
			}
		})
	}
}
