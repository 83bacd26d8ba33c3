// Command windmill-standin stands in for Windmill in the local stack; see
// package windmill. Local stack only.
//
//	windmill-standin -listen 127.0.0.1:8482 -workspace muniment \
//	    -folder deploy/windmill -cache .local/windmill -variables .local/windmill-variables.json
//
// The webhook of the flow is then
// http://127.0.0.1:8482/api/w/muniment/jobs/run/f/f/muniment/crawl_level, with
// the bearer token from the environment, WINDMILL_TOKEN. The variables are a
// JSON object of texts, read anew for each step:
//
//	{"f/muniment/gateway_url": "http://127.0.0.1:8080",
//	 "f/muniment/gateway_token": "<token of the development issuer for Windmill's subject>",
//	 "f/muniment/browserhive_endpoints": "[\"http://127.0.0.1:8481\"]",
//	 "f/muniment/browserhive_ca": "",
//	 "f/muniment/respect_robots": "true"}
//
// With -build it only checks the folder, builds the scripts and ends. GET
// /healthz answers 200.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/muniment/muniment/deploy/standins/serve"
	"github.com/muniment/muniment/deploy/standins/windmill"
)

func main() {
	serve.Main("windmill-standin", run)
}

func run(ctx context.Context, flags *flag.FlagSet, args []string) error {
	listen := flags.String("listen", "127.0.0.1:0", "loopback address to listen on, host:port; port 0 takes a free one")
	workspace := flags.String("workspace", "muniment", "name of the workspace in the webhook's path")
	folder := flags.String("folder", "deploy/windmill", "workspace folder, the one with wmill.yaml")
	cache := flags.String("cache", ".local/windmill", "folder for built scripts")
	variables := flags.String("variables", "", "JSON file with Windmill's variables")
	goCommand := flags.String("go", "go", "the go command that builds the scripts")
	buildOnly := flags.Bool("build", false, "check the folder, build the scripts and end")
	if err := serve.Parse(flags, args); err != nil {
		return err
	}
	flows, err := windmill.Load(ctx, *folder, *cache, *goCommand)
	if err != nil || *buildOnly {
		return err
	}
	token := os.Getenv("WINDMILL_TOKEN")
	if token == "" {
		return errors.New("WINDMILL_TOKEN must be set: the token that the webhook's caller bears")
	}
	if *variables == "" {
		return fmt.Errorf("-variables must name a JSON file; run %s -help", flags.Name())
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	server := windmill.New(*workspace, token, flows, windmill.VariableFile(*variables), log)
	defer server.Close()
	return serve.HTTP(ctx, os.Stdout, "windmill-standin", *listen, server)
}
