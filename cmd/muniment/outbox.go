package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/muniment/muniment/pkg/grpcx"
	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
)

const outboxUsage = `outbox stats                                            how far behind the delivery of tuples is
  muniment outbox dead                                             the rows that were set aside, and why
  muniment outbox retry ID… | --all                                give such rows another round of attempts
  muniment outbox discard ID --reason TEXT [--person NAME]         give such a row up for good; later rows of its objects go on
  muniment outbox drain [--wait 10s]                               deliver now, and say what is left
  muniment outbox audit [--repair]                                 compare the ledger with the engine; queue what differs
  muniment outbox archive --older-than 2160h --to FILE             move old delivered rows into a file`

// outboxCommands are the subcommands of outbox.
var outboxCommands = map[string]func(ctx context.Context, sh shell, args []string) error{
	"stats":   runOutboxStats,
	"dead":    runOutboxDead,
	"retry":   runOutboxRetry,
	"discard": runOutboxDiscard,
	"drain":   runOutboxDrain,
	"audit":   runOutboxAudit,
	"archive": runOutboxArchive,
}

func runOutbox(ctx context.Context, sh shell, args []string) error {
	if len(args) > 0 {
		if run, known := outboxCommands[args[0]]; known {
			return run(ctx, sh, args[1:])
		}
	}
	return errors.New("one of stats, dead, retry, discard, drain, audit or archive is needed; 'muniment help' explains them")
}

// outbox is a client of the relay with the operator's certificate:
// MUNIMENT_RELAY_GRPC_ADDRESS and MUNIMENT_TLS_CERT_FILE, _KEY_FILE, _CA_FILE.
func (s shell) outbox() (outboxrelayv1.OutboxServiceClient, io.Closer, error) {
	var address string
	var files grpcx.TLSFiles
	for name, into := range map[string]*string{
		"MUNIMENT_RELAY_GRPC_ADDRESS": &address,
		"MUNIMENT_TLS_CERT_FILE":      &files.Cert, "MUNIMENT_TLS_KEY_FILE": &files.Key, "MUNIMENT_TLS_CA_FILE": &files.CA,
	} {
		value, err := s.required(name)
		if err != nil {
			return nil, nil, err
		}
		*into = value
	}
	conn, err := grpcx.Dial(address, "outbox-relay", files)
	if err != nil {
		return nil, nil, err
	}
	return outboxrelayv1.NewOutboxServiceClient(conn), conn, nil
}

// askRelay makes one call of the relay, waiting a while for a connection.
func askRelay[Request, Reply any](ctx context.Context, sh shell, wait time.Duration, req *Request,
	method func(outboxrelayv1.OutboxServiceClient, context.Context, *Request, ...grpc.CallOption) (*Reply, error),
) (*Reply, error) {
	client, conn, err := sh.outbox()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	reply, err := method(client, ctx, req)
	if err != nil {
		return nil, fmt.Errorf("asking the outbox relay: %w", err)
	}
	return reply, nil
}

const callWait = 10 * time.Second

func runOutboxStats(ctx context.Context, sh shell, args []string) error {
	if len(args) > 0 {
		return errors.New("stats takes no arguments")
	}
	stats, err := askRelay(ctx, sh, callWait, &outboxrelayv1.StatsRequest{}, outboxrelayv1.OutboxServiceClient.Stats)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("waiting: %d\ndead: %d\n", stats.GetWaiting(), stats.GetDead())
	if at := stats.GetOldestCreatedAt(); at != nil {
		text += fmt.Sprintf("oldest waiting: queued at %s\n", at.AsTime().UTC().Format(time.RFC3339))
	}
	_, err = io.WriteString(sh.out, text)
	return err
}

func runOutboxDead(ctx context.Context, sh shell, args []string) error {
	if len(args) > 0 {
		return errors.New("dead takes no arguments")
	}
	req := &outboxrelayv1.ListDeadRequest{}
	found := 0
	for {
		page, err := askRelay(ctx, sh, callWait, req, outboxrelayv1.OutboxServiceClient.ListDead)
		if err != nil {
			return err
		}
		for _, row := range page.GetRows() {
			found++
			if _, err := fmt.Fprintf(sh.out, "%d  set aside %s after %d attempts\n  reason: %s\n  waiting behind it: later rows of %s\n  payload: %s\n",
				row.GetId(), row.GetDeadAt().AsTime().UTC().Format(time.RFC3339), row.GetAttempts(),
				row.GetReason(), strings.Join(row.GetKeys(), ", "), row.GetPayload()); err != nil {
				return err
			}
		}
		if page.NextPageToken == nil {
			break
		}
		req.PageToken = page.NextPageToken
	}
	_, err := fmt.Fprintf(sh.out, "dead rows: %d\n", found)
	return err
}

func runOutboxRetry(ctx context.Context, sh shell, args []string) error {
	req := &outboxrelayv1.RetryRequest{}
	switch {
	case len(args) == 1 && args[0] == "--all":
		req.All = true
	case len(args) == 0:
		return errors.New("ids of rows are needed ('muniment outbox dead' lists them), or --all")
	default:
		for _, arg := range args {
			id, err := strconv.ParseInt(arg, 10, 64)
			if err != nil || id < 1 {
				return fmt.Errorf("%q is not the id of a row", arg)
			}
			req.Ids = append(req.Ids, id)
		}
	}
	reply, err := askRelay(ctx, sh, callWait, req, outboxrelayv1.OutboxServiceClient.Retry)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(sh.out, "queued again: %d\n", reply.GetRetried())
	return err
}

func runOutboxDrain(ctx context.Context, sh shell, args []string) error {
	flags := flag.NewFlagSet("outbox drain", flag.ContinueOnError)
	flags.SetOutput(sh.out)
	wait := flags.Duration("wait", 10*time.Second, "how long to wait, up to 60s")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *wait < time.Second || *wait > time.Minute {
		return errors.New("drain takes --wait, from 1s to 60s, and nothing else")
	}
	reply, err := drain(ctx, sh, *wait)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(sh.out, "waiting: %d\ndead: %d\n", reply.GetWaiting(), reply.GetDead()); err != nil {
		return err
	}
	if !reply.GetDrained() {
		return fmt.Errorf("%d rows still wait", reply.GetWaiting())
	}
	return nil
}

func drain(ctx context.Context, sh shell, wait time.Duration) (*outboxrelayv1.DrainResponse, error) {
	seconds := int32(wait / time.Second)
	return askRelay(ctx, sh, wait+callWait, &outboxrelayv1.DrainRequest{WaitSeconds: &seconds}, outboxrelayv1.OutboxServiceClient.Drain)
}
