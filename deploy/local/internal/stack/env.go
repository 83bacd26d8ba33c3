package stack

import (
	"slices"

	"github.com/muniment/muniment/deploy/local/internal/engines"
	"github.com/muniment/muniment/pkg/devca"
)

// Env are the variables of stack.env, as NAME=value lines: where everything is.
// The services' addresses are lists with commas where there are replicas.
func (s *Stack) Env() []string {
	operator := devca.Files(s.Certificates(), "operator")
	env := []string{
		"MUNIMENT_GATEWAY_URL=" + s.Gateways[0],
		"MUNIMENT_ISSUER_URL=" + s.Issuer.URL,
		"MUNIMENT_DEMO_SITE_URL=http://" + s.layout.site,
		"MUNIMENT_DEMO_FEED_URL=http://" + s.layout.feeds,
		"MUNIMENT_BROWSERHIVE_URL=http://" + s.layout.browserhive,
		"MUNIMENT_WINDMILL_URL=http://" + s.layout.webhook,

		"MUNIMENT_DATABASE_URL=" + s.Engines.Postgres.URL(s.Database),
		"OPENFGA_API_URL=" + s.Engines.OpenFGA.APIURL,
		"OPENFGA_STORE_ID=" + s.StoreID,
		"OPENFGA_MODEL_ID=" + s.ModelID,
		"S3_ENDPOINT=" + s.Engines.Store.Endpoint,
		"S3_BUCKET=" + engines.Bucket,
		"S3_REGION=" + s.Engines.Store.Region,
		"S3_ACCESS_KEY=" + s.Engines.Store.AccessKey,
		"S3_SECRET_KEY=" + s.Engines.Store.SecretKey,

		"MUNIMENT_CERTIFICATES=" + s.Certificates(),
		"MUNIMENT_TLS_CERT_FILE=" + operator.Cert,
		"MUNIMENT_TLS_KEY_FILE=" + operator.Key,
		"MUNIMENT_TLS_CA_FILE=" + operator.CA,
		"MUNIMENT_LOGS=" + s.instance.Logs,
	}
	for _, service := range services {
		prefix := "MUNIMENT_" + service.prefix + "_"
		env = append(env,
			prefix+"DATABASE_URL="+s.Engines.Postgres.RoleURL(service.role, s.Database),
			prefix+"GRPC_ADDRESS="+s.layout.grpc(service.name),
			prefix+"DEBUG_ADDRESS="+s.layout.debug(service.name),
		)
	}
	return slices.Clip(env)
}
