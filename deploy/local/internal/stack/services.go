package stack

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/muniment/muniment/deploy/local/internal/engines"
	"github.com/muniment/muniment/deploy/local/internal/process"
	"github.com/muniment/muniment/pkg/devca"
)

// windmillSubject is who Windmill is: a service subject that may submit for the
// demo's organizations.
const windmillSubject = "windmill"

// organizations are those that the local stack's Windmill works for.
var organizations = []string{"acme", "beta"}

func (s *Stack) startServices(ctx context.Context) error {
	for _, service := range services {
		for n, r := range s.layout.replicas[service.name] {
			spec := s.service(service, n, r)
			if err := s.Set.Start(ctx, spec); err != nil {
				return err
			}
		}
	}
	return nil
}

// service describes one replica of a service: what all five want, and its own.
func (s *Stack) service(service service, n int, r replica) process.Spec {
	files := devca.Files(s.Certificates(), service.name)
	settings := map[string]string{
		"GRPC_ADDRESS":  r.grpc,
		"DEBUG_ADDRESS": r.debug,
		"TLS_CERT_FILE": files.Cert,
		"TLS_KEY_FILE":  files.Key,
		"TLS_CA_FILE":   files.CA,
		"DATABASE_URL":  s.Engines.Postgres.RoleURL(service.role, s.Database),
		// Nobody balances in front of a local stack: no need to linger.
		"DRAIN_DELAY": "100ms",
		// A second replica gets its share within seconds, for all to see.
		"MAX_CONNECTION_AGE": "30s",
	}
	own := map[string]func(map[string]string, replica){
		"ledger":        s.ledger,
		"signer":        s.signer,
		"outbox-relay":  s.relay,
		"reconciler":    s.reconciler,
		"feed-archiver": s.feedArchiver,
	}
	own[service.name](settings, r)
	env := make([]string, 0, len(settings))
	for name, value := range settings {
		env = append(env, "MUNIMENT_"+service.prefix+"_"+name+"="+value)
	}
	return process.Spec{
		Name:        replicaName(service.name, n),
		Path:        s.Program("muniment-" + service.name),
		Env:         process.Environment(env...),
		Ready:       process.Answers("http://" + r.debug + "/livez"),
		ReadyWithin: 30 * time.Second,
	}
}

func (s *Stack) ledger(settings map[string]string, r replica) {
	s.identity(settings)
	s.store(settings)
	s.openFGA(settings)
	settings["HTTP_ADDRESS"] = r.gateway
	settings["SIGNER_ADDRESS"] = s.layout.grpc("signer")
	settings["FEED_ADDRESS"] = s.layout.grpc("feed-archiver")
	settings["RELAY_ADDRESS"] = s.layout.grpc("outbox-relay")
	settings["WEBHOOK_URL"] = s.webhookURL()
	settings["WEBHOOK_TOKEN_FILE"] = s.secretFile("windmill-token")
}

func (s *Stack) signer(settings map[string]string, _ replica) {
	s.identity(settings)
	s.store(settings)
	s.openFGA(settings)
	settings["S3_PUBLIC_ENDPOINT"] = s.Engines.Store.Endpoint
	settings["LEDGER_ADDRESS"] = s.layout.grpc("ledger")
}

func (s *Stack) relay(settings map[string]string, _ replica) {
	s.openFGA(settings)
}

func (s *Stack) reconciler(settings map[string]string, _ replica) {
	s.store(settings)
	settings["LEDGER_ADDRESS"] = s.layout.grpc("ledger")
}

// feedArchiver reads the feed server's two feeds, and whatever other source the
// launcher's own environment gives an address with MUNIMENT_FEED_<SOURCE>_URL.
func (s *Stack) feedArchiver(settings map[string]string, _ replica) {
	settings["CONTACT"] = "local-stack@muniment.invalid"
	settings["HOST_SPACING"] = "50ms"
	if s.options.FeedsOnDemand {
		settings["FIRST_READ_AFTER"] = "24h"
	}
	urls := map[string]string{
		"NWS_ALERTS":       "http://" + s.layout.feeds + "/",
		"USGS_EARTHQUAKES": "http://" + s.layout.feeds + "/",
	}
	const prefix, suffix = "MUNIMENT_FEED_", "_URL"
	for _, variable := range os.Environ() {
		name, url, _ := strings.Cut(variable, "=")
		source := strings.TrimSuffix(strings.TrimPrefix(name, prefix), suffix)
		if name == prefix+source+suffix && source != "DATABASE" {
			urls[source] = url
		}
	}
	var sources []string
	for source, url := range urls {
		settings[source+suffix] = url
		sources = append(sources, strings.ToLower(source))
	}
	slices.Sort(sources)
	settings["SOURCES"] = strings.Join(sources, ",")
}

// identity is how callers prove who they are: by the issuer's tokens.
func (s *Stack) identity(settings map[string]string) {
	settings["ISSUER_URL"] = s.Issuer.URL
	settings["SERVICE_SUBJECTS"] = windmillSubject
}

func (s *Stack) store(settings map[string]string) {
	settings["S3_ENDPOINT"] = s.Engines.Store.Endpoint
	settings["S3_REGION"] = s.Engines.Store.Region
	settings["S3_BUCKET"] = engines.Bucket
	settings["S3_ACCESS_KEY_FILE"] = s.secretFile("s3-access-key")
	settings["S3_SECRET_KEY_FILE"] = s.secretFile("s3-secret-key")
}

func (s *Stack) openFGA(settings map[string]string) {
	settings["OPENFGA_API_URL"] = s.Engines.OpenFGA.APIURL
	settings["OPENFGA_STORE_ID"] = s.StoreID
	settings["OPENFGA_MODEL_ID"] = s.ModelID
}
