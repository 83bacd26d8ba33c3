package stack

import (
	"context"

	"github.com/muniment/muniment/deploy/local/internal/engines"
	"github.com/muniment/muniment/deploy/local/internal/process"
)

// LatePage is the page of the demo site whose manifest comes late.
const LatePage = "/docs/late.html"

// startStandins starts what stands in for the world outside: a web site, feeds
// and BrowserHive; Windmill is in windmill.go.
func (s *Stack) startStandins(ctx context.Context) error {
	for _, spec := range []process.Spec{
		{
			Name:  "site",
			Path:  s.Program("demo-site"),
			Args:  []string{"-listen", s.layout.site},
			Env:   process.Environment(),
			Ready: process.Answers("http://" + s.layout.site + "/healthz"),
		},
		{
			Name:  "feeds",
			Path:  s.Program("feedserver"),
			Args:  []string{"-listen", s.layout.feeds},
			Env:   process.Environment(),
			Ready: process.Answers("http://" + s.layout.feeds + "/healthz"),
		},
		{
			Name: "browserhive",
			Path: s.Program("browserhive-standin"),
			Args: []string{
				"-listen", s.layout.browserhive,
				"-s3-endpoint", s.Engines.Store.Endpoint,
				"-s3-region", s.Engines.Store.Region,
				"-s3-bucket", engines.Bucket,
				"-late-manifest", LatePage,
				// Until it is released, unless nobody does.
				"-late-manifest-delay", "10m",
			},
			Env:   process.Environment("S3_ACCESS_KEY="+s.Engines.Store.AccessKey, "S3_SECRET_KEY="+s.Engines.Store.SecretKey),
			Ready: process.Answers("http://" + s.layout.browserhive + "/status"),
		},
	} {
		if err := s.Set.Start(ctx, spec); err != nil {
			return err
		}
	}
	return s.startWindmill(ctx)
}
