// Command demo-site serves the local stack's demo site. Local stack only.
//
//	demo-site -listen 127.0.0.1:8480
//
// GET /healthz answers 200.
package main

import (
	"context"
	"flag"
	"os"

	"github.com/muniment/muniment/deploy/standins/serve"
	"github.com/muniment/muniment/deploy/standins/site"
)

func main() {
	serve.Main("demo-site", run)
}

func run(ctx context.Context, flags *flag.FlagSet, args []string) error {
	listen := flags.String("listen", "127.0.0.1:0", "loopback address to listen on, host:port; port 0 takes a free one")
	if err := serve.Parse(flags, args); err != nil {
		return err
	}
	return serve.HTTP(ctx, os.Stdout, "demo-site", *listen, site.Handler())
}
