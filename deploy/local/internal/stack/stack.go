// Package stack starts the whole product on this machine: the engines, the
// database's schema, the authorization model, certificates, an issuer of
// tokens, the stand-ins for what lives elsewhere in production, and the five
// services. It decides the order and the addresses; each program's settings
// stand beside it (services.go, standins.go).
package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/muniment/muniment/deploy/local/internal/engines"
	"github.com/muniment/muniment/deploy/local/internal/process"
	"github.com/muniment/muniment/deploy/openfga"
	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/devca"
	"github.com/muniment/muniment/pkg/devissuer"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/grpcx"
)

// Options are what the caller of a stack may choose.
type Options struct {
	// Replicas is how many of each service run.
	Replicas int
	// Gateway is the first gateway's address; a free one when empty.
	Gateway string
	// Bin is the folder of the programs.
	Bin string
	// FeedsOnDemand keeps the feed archiver from reading by itself.
	FeedsOnDemand bool
}

// Stack is a running stack.
type Stack struct {
	Engines  *engines.Engines
	Set      *process.Set
	Issuer   *devissuer.Issuer
	StoreID  string
	ModelID  string
	Database string // its full name
	// Gateways are the URLs of the ledger's gateways, one a replica.
	Gateways []string

	instance *process.Instance
	options  Options
	layout   layout
	token    string // what Windmill's webhook wants

	stopRenewing context.CancelFunc
	renewing     sync.WaitGroup
}

// Start starts everything and returns once every service is ready. What was
// started before an error is stopped again.
func Start(ctx context.Context, instance *process.Instance, options Options, sayf engines.Say) (_ *Stack, err error) {
	if options.Gateway != "" {
		if err := vacant(ctx, options.Gateway); err != nil {
			return nil, err
		}
	}
	if err := built(options.Bin); err != nil {
		return nil, err
	}
	set, err := process.NewSet(instance)
	if err != nil {
		return nil, err
	}
	s := &Stack{Set: set, instance: instance, options: options, token: rand.Text(), stopRenewing: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if s.layout, err = newLayout(options.Replicas, options.Gateway); err != nil {
		return nil, err
	}
	s.Gateways = s.layout.gateways()
	if s.Engines, err = engines.Start(ctx, set, instance, sayf); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		about string
		run   func(context.Context) error
	}{
		{"migrating the database", s.migrate},
		{"deploying the authorization model", s.deployModel},
		{"making certificates and keys", s.writeSecrets},
		{"starting the issuer of tokens", s.startIssuer},
		{"starting the stand-ins: demo site, feeds, BrowserHive, Windmill", s.startStandins},
		{"starting the services", s.startServices},
		{"waiting until every service is ready", s.waitReady},
	} {
		sayf("%s", step.about)
		if err := step.run(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Stop ends everything, the last started first.
func (s *Stack) Stop(ctx context.Context) error {
	s.stopRenewing()
	s.renewing.Wait()
	s.Set.StopAll()
	if s.Issuer != nil {
		s.Issuer.Close()
	}
	if s.Engines == nil {
		return nil
	}
	return s.Engines.Close(ctx)
}

// built says whether the programs are there; one of them stands for all.
func built(bin string) error {
	if _, err := os.Stat(filepath.Join(bin, "muniment-migrate")); err != nil {
		return fmt.Errorf("the program muniment-migrate is not in %s: run 'make build'", bin)
	}
	return nil
}

// vacant says whether an address that was asked for can be had.
func vacant(ctx context.Context, address string) error {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("the gateway cannot listen on %s: %w; choose another address, or leave --gateway out for a free one", address, err)
	}
	return lis.Close()
}

// migrate makes the database and runs the command that migrates it.
func (s *Stack) migrate(ctx context.Context) error {
	var err error
	if s.Database, err = s.Engines.Postgres.Database(ctx, "muniment", ""); err != nil {
		return err
	}
	err = s.Set.Run(ctx, process.Spec{
		Name: "migrate",
		Path: s.Program("muniment-migrate"),
		Args: []string{"up"},
		Env:  process.Environment("MUNIMENT_MIGRATE_DATABASE_URL=" + s.Engines.Postgres.URL(s.Database)),
	})
	if err != nil {
		return err
	}
	if err := s.Engines.Store.MakeBucket(ctx, engines.Bucket); err != nil {
		return err
	}
	return s.Engines.Postgres.SetRolePasswords(ctx)
}

func (s *Stack) deployModel(ctx context.Context) error {
	deployed, err := openfga.Deploy(ctx, openfga.Target{APIURL: s.Engines.OpenFGA.APIURL, StoreName: "muniment"})
	if err != nil {
		return err
	}
	s.StoreID, s.ModelID = deployed.StoreID, deployed.ModelID
	return s.grantWindmill(ctx)
}

// grantWindmill lets the service subject Windmill report for the local stack's
// organizations: the grant that an operator gives once in production.
func (s *Stack) grantWindmill(ctx context.Context) error {
	client, err := fga.New(config.OpenFGA{APIURL: s.Engines.OpenFGA.APIURL, StoreID: s.StoreID, ModelID: s.ModelID}, time.Now)
	if err != nil {
		return err
	}
	var tuples []fga.Tuple
	for _, organization := range organizations {
		tuples = append(tuples, fga.Tuple{User: "user:" + windmillSubject, Relation: "submitter", Object: "organization:" + organization})
	}
	return client.Write(ctx, tuples, nil)
}

// Site is the demo site's URL.
func (s *Stack) Site() string { return "http://" + s.layout.site }

// Feeds is the feed server's URL.
func (s *Stack) Feeds() string { return "http://" + s.layout.feeds }

// BrowserHive is the URL of BrowserHive's stand-in.
func (s *Stack) BrowserHive() string { return "http://" + s.layout.browserhive }

// Dial prepares an operator's client of a service, over all its replicas.
func (s *Stack) Dial(service string) (*grpc.ClientConn, error) {
	return grpcx.Dial(s.layout.grpc(service), service, devca.Files(s.Certificates(), "operator"))
}

// Certificates is the folder of the stack's certificates.
func (s *Stack) Certificates() string { return filepath.Join(s.instance.Dir, "certificates") }

// secretFile is the file of one of the stack's secrets.
func (s *Stack) secretFile(name string) string {
	return filepath.Join(s.instance.Dir, "secrets", name)
}

func (s *Stack) writeSecrets(context.Context) error {
	for _, dir := range []string{s.Certificates(), filepath.Dir(s.secretFile("any"))} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the folder of secrets: %w", err)
		}
	}
	if err := devca.Write(s.Certificates(), devca.Names, time.Now()); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"s3-access-key":  s.Engines.Store.AccessKey,
		"s3-secret-key":  s.Engines.Store.SecretKey,
		"windmill-token": s.token,
	} {
		if err := os.WriteFile(s.secretFile(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("writing a secret: %w", err)
		}
	}
	return nil
}

func (s *Stack) startIssuer(ctx context.Context) error {
	var err error
	s.Issuer, err = devissuer.Start(ctx, "127.0.0.1:0", time.Now)
	return err
}

// Program is the path of one of the repository's programs.
func (s *Stack) Program(name string) string { return filepath.Join(s.options.Bin, name) }

// readyWithin bounds the wait for the services.
const readyWithin = 60 * time.Second

// waitReady waits until every replica's /readyz says ok. The services need each
// other, so none is waited for before all run.
func (s *Stack) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for _, service := range services {
		for n, r := range s.layout.replicas[service.name] {
			for {
				err := ready(ctx, r.debug)
				if err == nil {
					break
				}
				select {
				case death := <-s.Set.Died():
					return death
				case <-ctx.Done():
					return fmt.Errorf("%s is not ready after %s: %w (its log: %s)", replicaName(service.name, n), readyWithin, err, s.instance.Logs)
				case <-time.After(100 * time.Millisecond):
				}
			}
		}
	}
	return nil
}

func ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	said := make([]byte, 500)
	n, _ := resp.Body.Read(said)
	return errors.New(strings.TrimSpace(string(said[:n])))
}

// replicaName is how a copy of a service is called in logs: ledger-1, ledger-2.
func replicaName(service string, n int) string { return fmt.Sprintf("%s-%d", service, n+1) }
