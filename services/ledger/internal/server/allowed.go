package server

import (
	"context"
	"errors"
	"strings"

	"github.com/muniment/muniment/pkg/grpcx"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
)

// Callers lists the ledger's methods with the services that may call them. What
// end users ask comes from the gateway, which runs under the ledger's name.
func Callers() grpcx.Callers {
	callers := grpcx.Callers{
		ledgerv1.RegistryService_LookupArchive_FullMethodName: {"signer", "reconciler"},
		ledgerv1.RegistryService_ListHoles_FullMethodName:     {"reconciler"},
		ledgerv1.RegistryService_AdmitManifest_FullMethodName: {"reconciler"},
		ledgerv1.RegistryService_CloseHole_FullMethodName:     {"reconciler"},
	}
	for _, method := range []string{
		ledgerv1.CrawlService_GetMe_FullMethodName, ledgerv1.CrawlService_StartCrawl_FullMethodName,
		ledgerv1.CrawlService_GetCrawl_FullMethodName, ledgerv1.CrawlService_ListCrawls_FullMethodName,
		ledgerv1.CrawlService_ReportLevel_FullMethodName, ledgerv1.CrawlService_FailCrawl_FullMethodName,
		ledgerv1.CrawlService_StopCrawl_FullMethodName,
		ledgerv1.ArchiveService_ListArchives_FullMethodName, ledgerv1.ArchiveService_GetArchive_FullMethodName,
		ledgerv1.ArchiveService_GetArchiveProof_FullMethodName,
		ledgerv1.TargetService_ListTargets_FullMethodName, ledgerv1.TargetService_AddTargets_FullMethodName,
		ledgerv1.TargetService_UpdateTarget_FullMethodName, ledgerv1.TargetService_RemoveTarget_FullMethodName,
		ledgerv1.SharingService_ShareArchive_FullMethodName, ledgerv1.SharingService_UnshareArchive_FullMethodName,
		ledgerv1.SharingService_ListShares_FullMethodName, ledgerv1.SharingService_DeleteArchive_FullMethodName,
	} {
		callers[method] = []string{"ledger"}
	}
	return callers
}

// WithoutIdentity are the methods that services call for themselves: no end
// user's token comes with them.
func WithoutIdentity() []string {
	return []string{
		ledgerv1.RegistryService_LookupArchive_FullMethodName, ledgerv1.RegistryService_ListHoles_FullMethodName,
		ledgerv1.RegistryService_AdmitManifest_FullMethodName, ledgerv1.RegistryService_CloseHole_FullMethodName,
	}
}

// WithoutCrawls is next in a ledger that has no webhook: whoever is
// authenticated is told that there are no crawls here.
func WithoutCrawls(next func(context.Context, string) (context.Context, error)) func(context.Context, string) (context.Context, error) {
	return func(ctx context.Context, fullMethod string) (context.Context, error) {
		ctx, err := next(ctx, fullMethod)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(fullMethod, "/"+ledgerv1.CrawlService_ServiceDesc.ServiceName+"/") && fullMethod != ledgerv1.CrawlService_GetMe_FullMethodName {
			return nil, rpcerr.NotFound(errors.New("crawls are off: MUNIMENT_LEDGER_WEBHOOK_URL is not set"))
		}
		return ctx, nil
	}
}
