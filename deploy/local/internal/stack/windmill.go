package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muniment/muniment/deploy/local/internal/process"
	"github.com/muniment/muniment/pkg/devissuer"
)

// Windmill's token lives as long as tokens do anywhere, and is renewed in time.
const (
	windmillTokenTTL   = 15 * time.Minute
	windmillTokenEvery = 5 * time.Minute
)

// startWindmill starts the stand-in that runs deploy/windmill's own flow.
func (s *Stack) startWindmill(ctx context.Context) error {
	if err := s.writeVariables(); err != nil {
		return err
	}
	renew, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stopRenewing = stop
	s.renewing.Go(func() { s.renewVariables(renew) })
	return s.Set.Start(ctx, process.Spec{
		Name: "windmill",
		Path: s.Program("windmill-standin"),
		Args: []string{
			"-listen", s.layout.webhook,
			"-folder", filepath.Join(s.instance.Root, "deploy", "windmill"),
			"-cache", filepath.Join(s.instance.Root, ".local", "windmill"),
			"-variables", s.variablesFile(),
		},
		// It builds the flow's scripts, with the go command's own settings.
		Env:         process.Environment(append(goVariables(), "WINDMILL_TOKEN="+s.token)...),
		Ready:       process.Answers("http://" + s.layout.webhook + "/healthz"),
		ReadyWithin: 5 * time.Minute,
	})
}

// webhookURL is where the ledger starts a level.
func (s *Stack) webhookURL() string {
	return "http://" + s.layout.webhook + "/api/w/muniment/jobs/run/f/f/muniment/crawl_level"
}

func (s *Stack) variablesFile() string { return s.secretFile("windmill-variables.json") }

// writeVariables writes Windmill's variables, a fresh token among them.
func (s *Stack) writeVariables() error {
	token, err := s.Issuer.Sign(windmillSubject, organizations, devissuer.WithTTL(windmillTokenTTL))
	if err != nil {
		return err
	}
	content, err := json.Marshal(map[string]string{
		"f/muniment/gateway_url":           s.Gateways[0],
		"f/muniment/gateway_token":         token,
		"f/muniment/browserhive_endpoints": `["http://` + s.layout.browserhive + `"]`,
		"f/muniment/browserhive_ca":        "",
		"f/muniment/respect_robots":        "true",
	})
	if err != nil {
		return fmt.Errorf("encoding Windmill's variables: %w", err)
	}
	// Renamed into place: each step reads the file anew.
	temporary := s.variablesFile() + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("writing Windmill's variables: %w", err)
	}
	if err := os.Rename(temporary, s.variablesFile()); err != nil {
		return fmt.Errorf("writing Windmill's variables: %w", err)
	}
	return nil
}

func (s *Stack) renewVariables(ctx context.Context) {
	ticker := time.NewTicker(windmillTokenEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// The token before is good for two more rounds.
			_ = s.writeVariables()
		}
	}
}

func goVariables() []string {
	var found []string
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "GO") {
			found = append(found, variable)
		}
	}
	return found
}
