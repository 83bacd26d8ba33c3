package engines

import (
	"context"
	"fmt"
	"net/url"

	"github.com/muniment/muniment/deploy/local/internal/process"
)

// OpenFGA is the running authorization engine.
type OpenFGA struct {
	// APIURL is where it speaks HTTP, and GRPCAddress (host:port) where gRPC.
	APIURL, GRPCAddress string

	spec process.Spec
}

func startOpenFGA(ctx context.Context, set *process.Set, instance *process.Instance, pg *Postgres, sayf Say) (*OpenFGA, error) {
	uri, err := openFGADatabase(ctx, pg)
	if err != nil {
		return nil, err
	}
	addresses, err := process.FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	program := binary(instance.Root, "openfga")
	env := process.Environment("OPENFGA_DATASTORE_ENGINE=postgres", "OPENFGA_DATASTORE_URI="+uri)
	sayf("starting OpenFGA on %s", addresses[0])
	if err := set.Run(ctx, process.Spec{Name: "openfga-migrate", Path: program, Args: []string{"migrate"}, Env: env}); err != nil {
		return nil, err
	}
	engine := &OpenFGA{APIURL: "http://" + addresses[0], GRPCAddress: addresses[1]}
	engine.spec = process.Spec{
		Name: "openfga",
		Path: program,
		Args: []string{
			"run",
			"--http-addr", addresses[0], "--grpc-addr", engine.GRPCAddress,
			"--playground-enabled=false", "--profiler-enabled=false", "--metrics-enabled=false",
			"--log-format", "json", "--log-level", "warn",
		},
		Env:   env,
		Ready: process.Answers(engine.APIURL + "/healthz"),
	}
	return engine, set.Start(ctx, engine.spec)
}

// Restart starts the engine again after set.Stop("openfga"), on the same port.
func (o *OpenFGA) Restart(ctx context.Context, set *process.Set) error {
	return set.Start(ctx, o.spec)
}

// openFGADatabase makes the engine's own role and database. With the generic
// plans that Postgres comes to prefer, each small write walks every tuple of a
// busy organization; the URL therefore asks for custom ones.
func openFGADatabase(ctx context.Context, pg *Postgres) (string, error) {
	role := "openfga" + pg.suffix
	script := fmt.Sprintf(`DO $$ BEGIN
		IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '%[1]s') THEN CREATE ROLE %[2]s; END IF;
	END $$; ALTER ROLE %[2]s LOGIN PASSWORD '%[3]s'`, role, quote(role), pg.password)
	if err := pg.Exec(ctx, "postgres", script); err != nil {
		return "", fmt.Errorf("making OpenFGA's role: %w", err)
	}
	name, err := pg.Database(ctx, "openfga", role)
	if err != nil {
		return "", err
	}
	u := *pg.superuser
	u.User = url.UserPassword(role, pg.password)
	u.Path = "/" + name
	query := u.Query()
	query.Set("plan_cache_mode", "force_custom_plan")
	u.RawQuery = query.Encode()
	return u.String(), nil
}
