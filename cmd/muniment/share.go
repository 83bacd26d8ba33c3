package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/identity"
)

const (
	shareUsage   = "share ARCHIVE USER --for 168h [--subject alice --org acme]\n                                                           let USER view it for a time, 1 minute to 1 year"
	unshareUsage = "unshare ARCHIVE USER [--subject alice --org acme]         take that back"
)

// sharing is what both commands are told. They speak through the gateway, as
// somebody who may share.
type sharing struct {
	archive, user         string
	length                time.Duration
	subject, organization string
}

// runShare asks the ledger for a share and says what holds now.
func runShare(ctx context.Context, sh shell, args []string) error {
	s, err := sharingArguments("share", args)
	if err != nil {
		return err
	}
	if s.length == 0 {
		return errors.New("--for is required: there is no share without an end")
	}
	if s.length%time.Second != 0 {
		return errors.New("--for must be whole seconds")
	}
	var reply struct {
		Until     time.Time `json:"until"`
		Delivered bool      `json:"delivered"`
	}
	body := map[string]any{"subject": s.user, "seconds": int64(s.length / time.Second)}
	if err := s.ask(ctx, sh, http.MethodPost, "", body, &reply); err != nil {
		return err
	}
	return s.say(ctx, sh, fmt.Sprintf("wrote: %s until %s", s.tuple(), reply.Until.Format(time.RFC3339)), reply.Delivered)
}

// runUnshare asks the ledger to take a share back and says what holds now.
func runUnshare(ctx context.Context, sh shell, args []string) error {
	s, err := sharingArguments("unshare", args)
	if err != nil {
		return err
	}
	if s.length != 0 {
		return errors.New("--for goes with share; unshare ends a share now")
	}
	var reply struct {
		Removed   bool `json:"removed"`
		Delivered bool `json:"delivered"`
	}
	if err := s.ask(ctx, sh, http.MethodDelete, "/"+url.PathEscape(s.user), nil, &reply); err != nil {
		return err
	}
	did := "removed: "
	if !reply.Removed {
		did = "nothing to do for: "
	}
	return s.say(ctx, sh, did+s.tuple(), reply.Delivered)
}

func (s sharing) tuple() string {
	return fga.User(s.user) + " viewer " + fga.Archive(s.archive)
}

// say tells what was done, and then asks the engine what holds now.
func (s sharing) say(ctx context.Context, sh shell, did string, delivered bool) error {
	if !delivered {
		did += "\nqueued: the relay has not delivered everything of this archive yet"
	}
	if _, err := fmt.Fprintln(sh.out, did); err != nil {
		return err
	}
	engine, err := sh.engine()
	if err != nil {
		return err
	}
	may, err := engine.Check(ctx, fga.Query{Subject: s.user, Relation: "can_view", Object: fga.Archive(s.archive), At: time.Now(), HighConsistency: true})
	if err != nil {
		return err
	}
	answer := "may not view %s, unless his token names an organization that may"
	if may {
		answer = "may view %s"
	}
	_, err = fmt.Fprintf(sh.out, "now: %s "+answer+"\n", s.user, fga.Archive(s.archive))
	return err
}

// ask calls the gateway's route of the archive's shares.
func (s sharing) ask(ctx context.Context, sh shell, method, path string, body, reply any) error {
	g, err := sh.gateway(ctx, s.subject, s.organization)
	if err != nil {
		return err
	}
	err = g.call(ctx, method, "/api/archives/"+s.archive+"/shares"+path, body, reply)
	if refused, ok := errors.AsType[*gatewayError](err); ok && refused.status == http.StatusNotFound {
		return errors.New("there is no such archive, or the caller is neither its owner nor an admin of its organization")
	}
	return err
}

// sharingArguments reads the two names and the flags, in whatever order.
func sharingArguments(command string, args []string) (sharing, error) {
	var s sharing
	flags := flag.NewFlagSet("muniment "+command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.DurationVar(&s.length, "for", 0, "how long USER may view the archive")
	flags.StringVar(&s.subject, "subject", "", "who shares, at a local stack; elsewhere MUNIMENT_TOKEN says it")
	flags.StringVar(&s.organization, "org", "", "the organization of --subject")
	var names []string
	for {
		if err := flags.Parse(args); err != nil {
			return sharing{}, err
		}
		if flags.NArg() == 0 {
			break
		}
		names, args = append(names, flags.Arg(0)), flags.Args()[1:]
	}
	if len(names) != 2 || uuid.Validate(names[0]) != nil {
		return sharing{}, errors.New("two arguments are needed: the id of an archive, and a user")
	}
	s.archive, s.user = names[0], names[1]
	if err := identity.CheckSubject(s.user); err != nil {
		return sharing{}, fmt.Errorf("the user %w", err)
	}
	return s, nil
}
