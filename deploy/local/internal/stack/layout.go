package stack

import (
	"strings"

	"github.com/muniment/muniment/deploy/local/internal/process"
)

// service is one of the five: how it is called in certificates, in variables
// and in the database.
type service struct {
	name   string // certificate, log
	prefix string // MUNIMENT_<prefix>_
	role   string // short name of the database role
}

// services are all five, in the order of their start.
var services = []service{
	{"signer", "SIGNER", "signer"},
	{"ledger", "LEDGER", "ledger"},
	{"outbox-relay", "RELAY", "relay"},
	{"reconciler", "RECONCILER", "reconciler"},
	{"feed-archiver", "FEED", "feed"},
}

// replica is where one copy of a service listens.
type replica struct {
	grpc, debug string
	gateway     string // the ledger's HTTP; "" for the others
}

// layout is every address of a stack, chosen before anything starts, because
// the services and Windmill's stand-in must know each other.
type layout struct {
	replicas                          map[string][]replica // by service name
	site, feeds, browserhive, webhook string
}

func newLayout(replicas int, gateway string) (layout, error) {
	const standins = 4
	addresses, err := process.FreeAddresses(standins + len(services)*replicas*2 + replicas)
	if err != nil {
		return layout{}, err
	}
	next := func() string {
		first := addresses[0]
		addresses = addresses[1:]
		return first
	}
	l := layout{
		replicas: map[string][]replica{},
		site:     next(), feeds: next(), browserhive: next(), webhook: next(),
	}
	for _, s := range services {
		for n := range replicas {
			r := replica{grpc: next(), debug: next()}
			if s.name == "ledger" {
				r.gateway = next()
				if n == 0 && gateway != "" {
					r.gateway = gateway
				}
			}
			l.replicas[s.name] = append(l.replicas[s.name], r)
		}
	}
	return l, nil
}

// grpc is the target of a service as clients take it: every replica, with
// commas between.
func (l layout) grpc(service string) string {
	return l.join(service, func(r replica) string { return r.grpc })
}

func (l layout) debug(service string) string {
	return l.join(service, func(r replica) string { return r.debug })
}

func (l layout) join(service string, address func(replica) string) string {
	all := make([]string, 0, len(l.replicas[service]))
	for _, r := range l.replicas[service] {
		all = append(all, address(r))
	}
	return strings.Join(all, ",")
}

// gateways are the URLs of the ledger's HTTP gateways.
func (l layout) gateways() []string {
	var urls []string
	for _, r := range l.replicas["ledger"] {
		urls = append(urls, "http://"+r.gateway)
	}
	return urls
}
