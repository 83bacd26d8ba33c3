package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/testkit"
)

// archivers are replicas of the real program on one database, and what they
// read.
type archivers struct {
	db        *testkit.DB
	superuser *pgxpool.Pool
	certs     testkit.Certs
	publisher *publisher
}

func newArchivers(t *testing.T) *archivers {
	t.Helper()
	db := testkit.Postgres(t)
	return &archivers{db: db, superuser: db.Pool(t, "superuser"), certs: testkit.Certificates(t), publisher: newPublisher(t)}
}

// replica is one running program.
type replica struct {
	address string
	process *exec.Cmd
	output  *output
}

// start runs a replica; settings are further variables without the
// prefix, which win. Its name stands in the User-Agent of its requests.
func (a *archivers) start(t *testing.T, name string, settings ...string) *replica {
	t.Helper()
	files := a.certs.Files("feed-archiver")
	r := &replica{address: testkit.FreeAddress(t), output: &output{}}
	r.process = exec.Command(testkit.Binary(t, "muniment-feed-archiver"))
	r.process.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, setting := range append([]string{
		"GRPC_ADDRESS=" + r.address, "DEBUG_ADDRESS=127.0.0.1:0", "DRAIN_DELAY=50ms",
		"TLS_CERT_FILE=" + files.Cert, "TLS_KEY_FILE=" + files.Key, "TLS_CA_FILE=" + files.CA,
		"DATABASE_URL=" + a.db.URL("feed"), "CONTACT=" + name + "@example.org", "HOST_SPACING=0s",
		"SOURCES=nws_alerts,usgs_earthquakes,nhc_current_storms", "CLAIM_LEASE=1s", "LOOK_EVERY=20ms", "FIRST_READ_AFTER=0s",
		"NWS_ALERTS_URL=" + a.publisher.URL + "/nws_alerts", "NWS_ALERTS_EVERY=50ms",
		"USGS_EARTHQUAKES_URL=" + a.publisher.URL + "/usgs_earthquakes", "USGS_EARTHQUAKES_EVERY=50ms",
		"NHC_CURRENT_STORMS_URL=" + a.publisher.URL + "/nhc_current_storms", "NHC_CURRENT_STORMS_EVERY=50ms",
	}, settings...) {
		r.process.Env = append(r.process.Env, prefix+setting)
	}
	r.process.Stdout, r.process.Stderr = r.output, r.output
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.process.Process.Kill(); _ = r.process.Wait() })
	return r
}

// kill is kill -9.
func (r *replica) kill(t *testing.T) {
	t.Helper()
	if err := r.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.process.Wait()
}

func (a *archivers) count(t *testing.T, query string) int {
	t.Helper()
	var n int
	if err := a.superuser.QueryRow(t.Context(), "SELECT count(*) FROM feed."+query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// eventually waits until a query counts so many rows at the least.
func (a *archivers) eventually(t *testing.T, atLeast int, query string, of ...*replica) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		n := a.count(t, query)
		state := fmt.Sprintf("%d of %d: %s", n, atLeast, query)
		for _, r := range of {
			state += "\n" + r.output.String()
		}
		return n >= atLeast, state
	})
}

// output holds a program's lines.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// publisher serves three sources, each under its name, with three items that
// are new at every read. It notes who reads, and how many at once.
type publisher struct {
	*httptest.Server
	edition atomic.Int64
	// hold, when set, is what an answer waits for between its two halves.
	hold atomic.Pointer[chan struct{}]
	// held says that an answer waits.
	held chan struct{}

	mu              sync.Mutex
	inside, crowded map[string]int
	readers         map[string]int
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{held: make(chan struct{}, 100), inside: map[string]int{}, crowded: map[string]int{}, readers: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *publisher) serve(w http.ResponseWriter, r *http.Request) {
	source := strings.TrimPrefix(r.URL.Path, "/")
	p.enter(source, r.UserAgent())
	defer p.leave(source)
	body := p.body(source)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	if hold := p.hold.Load(); hold != nil {
		p.held <- struct{}{}
		select {
		case <-*hold:
		case <-r.Context().Done():
			return
		}
	}
	time.Sleep(5 * time.Millisecond) // a publisher takes its time
	_, _ = w.Write(body[len(body)/2:])
}

func (p *publisher) enter(source, agent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside[source]++
	p.crowded[source] = max(p.crowded[source], p.inside[source])
	p.readers[agent]++
}

func (p *publisher) leave(source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside[source]--
}

// body has 40 items of which three are new in each edition.
func (p *publisher) body(source string) []byte {
	edition := p.edition.Add(1)
	items := make([]string, 40)
	for i := range items {
		revision := int64(0)
		if i < 3 {
			revision = edition
		}
		id := fmt.Sprintf("%d.%d", i, revision)
		switch source {
		case "nhc_current_storms":
			items[i] = fmt.Sprintf(`{"id":"al%02d2026","lastUpdate":"2026-08-02T03:00:00.000Z","revision":%d}`, i, revision)
		default:
			items[i] = fmt.Sprintf(`{"id":%q,"type":"Feature","geometry":null,"properties":{"id":%q,"sent":"2026-11-30T12:00:00Z","updated":1785640000000,"mag":1,"time":1785640000000}}`, id, id)
		}
	}
	list := strings.Join(items, ",")
	if source == "nhc_current_storms" {
		return []byte(`{"activeStorms":[` + list + `]}`)
	}
	return []byte(`{"type":"FeatureCollection","metadata":{"status":200},"features":[` + list + `]}`)
}
