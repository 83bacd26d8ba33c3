// Command feedserver serves the local stack's stand-in feeds: alerts and
// earthquakes made up for the demo. Local stack only.
//
//	feedserver -listen 127.0.0.1:8490
//
// POST /advance changes three products of each feed; GET /healthz answers 200.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/muniment/muniment/deploy/standins/feedserver"
	"github.com/muniment/muniment/deploy/standins/serve"
)

func main() {
	serve.Main("feedserver", run)
}

func run(ctx context.Context, flags *flag.FlagSet, args []string) error {
	listen := flags.String("listen", "127.0.0.1:0", "loopback address to listen on, host:port; port 0 takes a free one")
	if err := serve.Parse(flags, args); err != nil {
		return err
	}
	return serve.HTTP(ctx, os.Stdout, "feedserver", *listen, feedserver.Handler(time.Now))
}
