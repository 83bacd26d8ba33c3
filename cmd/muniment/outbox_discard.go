package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"

	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
)

// runOutboxDiscard gives up a row that was set aside. The relay records the
// person as he names himself, and the certificate beside it.
func runOutboxDiscard(ctx context.Context, sh shell, args []string) error {
	flags := flag.NewFlagSet("outbox discard", flag.ContinueOnError)
	flags.SetOutput(sh.out)
	reason := flags.String("reason", "", "why it can be done without; kept for ever")
	person := flags.String("person", sh.getenv("USER"), "who decides it; kept for ever")
	if len(args) == 0 {
		return errors.New("the id of a row is needed ('muniment outbox dead' lists them), and --reason")
	}
	id, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || id < 1 {
		return fmt.Errorf("%q is not the id of a row", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q; one row at a time is discarded", flags.Arg(0))
	case *reason == "":
		return errors.New("--reason is needed: it is all that will be left of the row's purpose")
	case *person == "":
		return errors.New("--person is needed where USER is not set")
	}
	req := &outboxrelayv1.DiscardRequest{Id: id, Person: *person, Reason: *reason}
	if _, err := askRelay(ctx, sh, callWait, req, outboxrelayv1.OutboxServiceClient.Discard); err != nil {
		return err
	}
	_, err = fmt.Fprintf(sh.out, "discarded: %d; later rows of its objects go on, and 'muniment outbox audit' says what the engine now lacks\n", id)
	return err
}
