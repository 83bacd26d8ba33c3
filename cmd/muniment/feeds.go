package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/muniment/muniment/pkg/grpcx"
	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
)

const feedsUsage = `feeds                                                   the sources with their state
  muniment feeds read SOURCE [--once] [--dry-run]         read a source now; a dry run stores nothing
  muniment feeds replay SOURCE FILE... [--request R] [--event E] [--storm S] [--version V] [--source S] [--code C]
                                                          run recorded bodies through a scratch database`

// runFeeds shows and runs the sources of the feed archiver.
func runFeeds(ctx context.Context, sh shell, args []string) error {
	switch {
	case len(args) == 0:
		return listFeeds(ctx, sh)
	case args[0] == "read":
		return readFeed(ctx, sh, args[1:])
	case args[0] == "replay":
		return replayFeed(ctx, sh, args[1:])
	}
	return fmt.Errorf("unknown argument %q; usage: muniment %s", args[0], feedsUsage)
}

// feedArchiver calls the archiver with the operator's certificate.
func feedArchiver(sh shell, call func(feedarchiverv1.FeedServiceClient) error) error {
	address, err := sh.required("MUNIMENT_FEED_GRPC_ADDRESS")
	if err != nil {
		return err
	}
	files := grpcx.TLSFiles{Cert: sh.getenv("MUNIMENT_TLS_CERT_FILE"), Key: sh.getenv("MUNIMENT_TLS_KEY_FILE"), CA: sh.getenv("MUNIMENT_TLS_CA_FILE")}
	conn, err := grpcx.Dial(address, "feed-archiver", files)
	if err != nil {
		return err
	}
	err = call(feedarchiverv1.NewFeedServiceClient(conn))
	if status.Code(err) == codes.NotFound {
		err = errors.New("the feed archiver reads no source of that name; 'muniment feeds' lists them")
	}
	return errors.Join(err, conn.Close())
}

func listFeeds(ctx context.Context, sh shell) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return feedArchiver(sh, func(archiver feedarchiverv1.FeedServiceClient) error {
		reply, err := archiver.ListFeeds(ctx, &feedarchiverv1.ListFeedsRequest{})
		if err != nil {
			return fmt.Errorf("asking the feed archiver: %w", err)
		}
		table := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
		lines := []string{"SOURCE\tEVERY\tSTATE\tLAST READ\tNEXT READ\tREADS A DAY\tSEEN\tNEW\tLAST FAILURE"}
		for _, f := range reply.GetFeeds() {
			failure := "-"
			if f.LastFailure != nil {
				failure = when(f.GetLastFailureAt()) + " " + f.GetLastFailure()
			}
			lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s", f.GetSource(), time.Duration(f.GetIntervalSeconds())*time.Second,
				feedState(f), when(f.GetLastReadAt()), when(f.GetNextReadAt()), f.GetReads(), f.GetItemsSeen(), f.GetItemsNew(), failure))
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(table, line); err != nil {
				return err
			}
		}
		return table.Flush()
	})
}

// feedState says in a word or two how a source is doing.
func feedState(f *feedarchiverv1.Feed) string {
	switch {
	case f.GetReading():
		return "reading"
	case f.GetRestamps():
		return "restamps"
	case f.GetLastReadAt() == nil && f.GetLastFailureAt() == nil:
		return "not read yet"
	case f.GetLastReadAt() == nil || f.GetLastFailureAt().AsTime().After(f.GetLastReadAt().AsTime()):
		return "failing"
	}
	return "ok"
}

func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}

func readFeed(ctx context.Context, sh shell, args []string) error {
	flags := flag.NewFlagSet("feeds read", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	once := flags.Bool("once", true, "read once")
	dry := flags.Bool("dry-run", false, "store nothing")
	source, err := oneName(flags, args)
	if err != nil {
		return err
	}
	if !*once {
		return errors.New("a source is read once; reading on is the archiver's own work")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	return feedArchiver(sh, func(archiver feedarchiverv1.FeedServiceClient) error {
		reply, err := archiver.ReadFeed(ctx, &feedarchiverv1.ReadFeedRequest{Source: source, DryRun: *dry})
		if err != nil {
			return err
		}
		failed := 0
		for _, r := range reply.GetReads() {
			line := fmt.Sprintf("%s: status %d, %d items, %d new", r.GetRequest(), r.GetHttpStatus(), r.GetItemsSeen(), r.GetItemsNew())
			switch {
			case r.Failure != nil:
				failed++
				line = fmt.Sprintf("%s: FAILED READ (status %d): %s", r.GetRequest(), r.GetHttpStatus(), r.GetFailure())
			case r.ItemsSeen == nil:
				line = fmt.Sprintf("%s: status %d, nothing has changed", r.GetRequest(), r.GetHttpStatus())
			}
			if _, err := fmt.Fprintln(sh.out, line); err != nil {
				return err
			}
		}
		if len(reply.GetReads()) == 0 {
			_, err := fmt.Fprintf(sh.out, "%s has nothing to read: what it follows held nothing that leads to it, or it is not configured\n", source)
			return err
		}
		if failed > 0 {
			return fmt.Errorf("%d of %d reads failed", failed, len(reply.GetReads()))
		}
		return nil
	})
}

// oneName parses flags before and after the one name that is wanted.
func oneName(flags *flag.FlagSet, args []string) (string, error) {
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	name := flags.Arg(0)
	if name == "" {
		return "", errors.New("the name of a source is needed")
	}
	if err := flags.Parse(flags.Args()[1:]); err != nil {
		return "", err
	}
	if flags.NArg() > 0 {
		return "", fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return name, nil
}

// replayFeed runs the program that holds the archiver's own reading and
// writing, which stands beside this one.
func replayFeed(ctx context.Context, sh shell, args []string) error {
	database, err := sh.required("MUNIMENT_DATABASE_URL")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program's folder: %w", err)
	}
	program := filepath.Join(filepath.Dir(self), "muniment-feed-replay")
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%s is missing: run 'make build'", program)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "MUNIMENT_DATABASE_URL="+database)
	cmd.Stdout, cmd.Stderr = sh.out, os.Stderr
	if err := cmd.Run(); err != nil {
		return errors.New("replaying failed; the lines above say where")
	}
	return nil
}
