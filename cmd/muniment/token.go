package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const tokenUsage = "token --subject alice --org acme[,beta] [--ttl 5m]    a token of the local stack's issuer"

// runToken prints a token of the development issuer.
func runToken(ctx context.Context, sh shell, args []string) error {
	flags := flag.NewFlagSet("muniment token", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	subject := flags.String("subject", "", "who the token is for")
	orgs := flags.String("org", "", "the organizations, with commas between")
	ttl := flags.Duration("ttl", 5*time.Minute, "how long it is good for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if *subject == "" {
		return errors.New("--subject is required")
	}
	issuer, err := sh.required("MUNIMENT_ISSUER_URL")
	if err != nil {
		return err
	}
	organizations := []string{}
	if *orgs != "" {
		organizations = strings.Split(*orgs, ",")
	}
	token, err := fetchToken(ctx, issuer, map[string]any{
		"subject": *subject, "organizations": organizations, "ttl": ttl.String(),
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(sh.out, token)
	return err
}

func fetchToken(ctx context.Context, issuer string, request map[string]any) (string, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("encoding the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, issuer+"/token", bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("reading MUNIMENT_ISSUER_URL: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking the issuer (is the stack up?): %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return "", fmt.Errorf("reading the issuer's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the issuer refuses: %s", bytes.TrimSpace(content))
	}
	var reply struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(content, &reply); err != nil || reply.Token == "" {
		return "", errors.New("the issuer's answer holds no token")
	}
	return reply.Token, nil
}
