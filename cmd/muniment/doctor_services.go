package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/grpcx"
)

// service is one of the five: its name in certificates, and in variables.
type service struct{ name, prefix string }

var services = []service{
	{"ledger", "LEDGER"}, {"signer", "SIGNER"}, {"reconciler", "RECONCILER"}, {"outbox-relay", "RELAY"}, {"feed-archiver", "FEED"},
}

// setting names the variable that holds the service's addresses.
func (s service) setting() string { return "MUNIMENT_" + s.prefix + "_GRPC_ADDRESS" }

// examineService asks each replica of a service for its own health, in which
// everything that it depends on has a part, until one is not ready.
func examineService(ctx context.Context, sh shell, s service) (string, error) {
	files := grpcx.TLSFiles{Cert: sh.getenv("MUNIMENT_TLS_CERT_FILE"), Key: sh.getenv("MUNIMENT_TLS_KEY_FILE"), CA: sh.getenv("MUNIMENT_TLS_CA_FILE")}
	addresses := list(sh.getenv(s.setting()))
	pages := list(sh.getenv("MUNIMENT_" + s.prefix + "_DEBUG_ADDRESS"))
	for i, address := range addresses {
		conn, err := grpcx.Dial(address, s.name, files)
		if err != nil {
			return "", remark{err.Error(), "see " + s.setting() + " and MUNIMENT_TLS_CERT_FILE, _KEY_FILE and _CA_FILE"}
		}
		ready, err := askHealth(ctx, conn, address, s)
		_ = conn.Close()
		if err != nil {
			return "", err
		}
		if !ready {
			why := "its page /readyz and the last line 'not ready' of its log say what it waits for"
			if i < len(pages) && pages[i] != "" {
				why = "it waits for this: " + readyPage(ctx, pages[i])
			}
			return "", remark{address + " is not ready", why}
		}
	}
	if len(addresses) == 1 {
		return "ready", nil
	}
	return fmt.Sprintf("%d replicas, all ready", len(addresses)), nil
}

// list splits a setting with commas.
func list(text string) []string {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func askHealth(ctx context.Context, conn *grpc.ClientConn, address string, s service) (ready bool, err error) {
	reply, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	switch {
	case err == nil:
		return reply.GetStatus() == healthpb.HealthCheckResponse_SERVING, nil
	case strings.Contains(err.Error(), "tls: ") || strings.Contains(err.Error(), "x509: "):
		return false, remark{address + " and this certificate do not accept each other", "use the operator's, and the CA that signed the services'"}
	case status.Code(err) == codes.Unavailable || status.Code(err) == codes.DeadlineExceeded:
		return false, remark{"nothing answers on " + address, "start it, or correct " + s.setting()}
	}
	return false, remark{address + " answers " + status.Code(err).String(), "see its log"}
}

// readyPage is the line in which a service says what is missing and what to do.
func readyPage(ctx context.Context, address string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
	if err != nil {
		return "unknown, " + address + " is not an address"
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "unknown, nothing answers on " + address
	}
	defer func() { _ = reply.Body.Close() }()
	line, err := io.ReadAll(io.LimitReader(reply.Body, 1000))
	if err != nil {
		return "unknown, " + address + " does not finish its page"
	}
	return strings.TrimSpace(string(line))
}
