package main

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/muniment/muniment/pkg/devca"
	"github.com/muniment/muniment/pkg/grpcx"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
	signerv1 "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
)

// What each certificate opens at the three services that hold rights, method by
// method, found out by calling the real programs with every certificate there
// is. A method that does not stand here is open to nobody.
func TestWhatEachCertificateOpens(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	opens := map[string][]string{
		"RegistryService/LookupArchive": {"reconciler", "signer"},
		"RegistryService/ListHoles":     {"reconciler"},
		"RegistryService/AdmitManifest": {"reconciler"},
		"RegistryService/CloseHole":     {"reconciler"},
		"OutboxService/WaitDelivered":   {"ledger"},
		"OutboxService/Stats":           {"operator"},
		"OutboxService/ListDead":        {"operator"},
		"OutboxService/Retry":           {"operator"},
		"OutboxService/Discard":         {"operator"},
		"OutboxService/Drain":           {"operator"},
	}
	// What end users ask comes through the gateway alone, whose name opens
	// nothing without an end user's token.
	gateways := map[string]bool{}
	services := []struct {
		name, address string
		descriptions  []grpc.ServiceDesc
	}{
		{"ledger", w.grpc, []grpc.ServiceDesc{
			ledgerv1.CrawlService_ServiceDesc, ledgerv1.ArchiveService_ServiceDesc, ledgerv1.SharingService_ServiceDesc,
			ledgerv1.TargetService_ServiceDesc, ledgerv1.RegistryService_ServiceDesc,
		}},
		{"signer", w.signer, []grpc.ServiceDesc{signerv1.SignerService_ServiceDesc}},
		{"outbox-relay", w.relay, []grpc.ServiceDesc{outboxrelayv1.OutboxService_ServiceDesc}},
	}
	for _, s := range services {
		for _, d := range s.descriptions {
			if d.ServiceName == ledgerv1.RegistryService_ServiceDesc.ServiceName || s.name == "outbox-relay" {
				continue
			}
			for _, m := range d.Methods {
				method := shortName(d.ServiceName, m.MethodName)
				opens[method], gateways[method] = []string{"ledger"}, true
			}
		}
	}
	for _, s := range services {
		for _, peer := range devca.Names {
			conn, err := grpcx.Dial(s.address, s.name, w.certs.Files(peer))
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range s.descriptions {
				for _, m := range d.Methods {
					method := shortName(d.ServiceName, m.MethodName)
					err := conn.Invoke(t.Context(), "/"+d.ServiceName+"/"+m.MethodName, &emptypb.Empty{}, &emptypb.Empty{})
					open := slices.Contains(opens[method], peer)
					if code := status.Code(err); open == (code == codes.PermissionDenied) {
						t.Errorf("%s at %s with the certificate of %s: %v", method, s.name, peer, err)
					} else if open && gateways[method] && code != codes.Unauthenticated {
						t.Errorf("%s with the gateway's certificate and no token: %v", method, err)
					}
				}
			}
			_ = conn.Close()
		}
	}
}

func shortName(service, method string) string {
	return service[strings.LastIndexByte(service, '.')+1:] + "/" + method
}
