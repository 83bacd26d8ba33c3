package testkit

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Proxy stands between a program and an engine and makes the faults that a
// network makes.
type Proxy struct {
	*toxiproxy.Proxy
	t testing.TB
	// URL is the engine's, by way of the proxy.
	URL string
}

// NewProxy starts a proxy in front of an engine's URL; Stop and Start are the
// engine gone and back.
func NewProxy(t testing.TB, engine string) *Proxy {
	t.Helper()
	u, err := url.Parse(engine)
	if err != nil {
		t.Fatalf("parsing the engine's URL: %v", err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := toxiproxy.NewProxy(server, "engine", "127.0.0.1:0", u.Host)
	if err := server.Collection.Add(p, true); err != nil {
		t.Fatalf("starting the proxy: %v", err)
	}
	t.Cleanup(p.Stop)
	u.Host = p.Listen
	return &Proxy{Proxy: p, t: t, URL: u.String()}
}

// Toxic adds a fault: a kind of toxiproxy, its stream ("upstream" towards the
// engine, "downstream" back) and its attributes in JSON.
func (p *Proxy) Toxic(kind, stream, attributes string) {
	p.t.Helper()
	_, err := p.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"name":%q,"type":%q,"stream":%q,"toxicity":1,"attributes":%s}`, kind, kind, stream, attributes)))
	if err != nil {
		p.t.Fatalf("adding a fault: %v", err)
	}
}

// Heal takes the fault of that kind away.
func (p *Proxy) Heal(kind string) {
	p.t.Helper()
	if err := p.Toxics.RemoveToxic(context.Background(), kind); err != nil {
		p.t.Fatalf("removing a fault: %v", err)
	}
}
