package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/fga"
)

const whoUsage = "who ARCHIVE                                             who may view it, and by which path"

// path is one way in which somebody comes to view an archive.
type path struct {
	// who is a user or "every member of <organization>".
	who, how string
	// ask is the engine's question about that person: an actual user, or what a
	// member of the organization would be told.
	ask fga.Query
}

// runWho lists the paths that are stored, and asks the engine about each.
func runWho(ctx context.Context, sh shell, args []string) error {
	if len(args) != 1 || uuid.Validate(args[0]) != nil {
		return errors.New("one argument is needed: the id of an archive")
	}
	engine, err := sh.engine()
	if err != nil {
		return err
	}
	paths, err := pathsTo(ctx, engine, fga.Archive(args[0]), time.Now())
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		_, err := fmt.Fprintf(sh.out, "nobody may view %s: the engine holds no tuple of it\n", fga.Archive(args[0]))
		return err
	}
	table := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, "WHO\tMAY VIEW NOW\tPATH"); err != nil {
		return err
	}
	for _, p := range paths {
		allowed, err := engine.Check(ctx, p.ask)
		if err != nil {
			return err
		}
		answer := "no"
		if allowed {
			answer = "yes"
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\n", p.who, answer, p.how); err != nil {
			return err
		}
	}
	return table.Flush()
}

// pathsTo follows the tuples from an archive: its shares, and the owner and the
// organization of the job that made it.
func pathsTo(ctx context.Context, engine *fga.Client, archive string, now time.Time) ([]path, error) {
	var paths []path
	add := func(user, how string) {
		paths = append(paths, path{who: whoIs(user), how: how, ask: question(user, archive, now)})
	}
	tuples, err := tuplesOf(ctx, engine, archive)
	if err != nil {
		return nil, err
	}
	for _, t := range tuples {
		switch t.Relation {
		case "viewer":
			add(t.User, shared(t, now))
		case "parent":
			ofJob, err := tuplesOf(ctx, engine, t.User)
			if err != nil {
				return nil, err
			}
			for _, j := range ofJob {
				switch j.Relation {
				case "owner":
					add(j.User, "owner of "+t.User)
				case "parent":
					add(j.User+"#member", j.User+" owns "+t.User+"; membership comes with each token")
				}
			}
		}
	}
	return paths, nil
}

func tuplesOf(ctx context.Context, engine *fga.Client, object string) ([]fga.Tuple, error) {
	var tuples []fga.Tuple
	err := engine.Read(ctx, fga.Key{Object: object}, func(t fga.Tuple) error {
		tuples = append(tuples, t)
		return nil
	})
	return tuples, err
}

func whoIs(user string) string {
	if organization, ok := strings.CutSuffix(user, "#member"); ok {
		return "every member of " + organization
	}
	return user
}

// question asks about a user, or about a member of an organization who is
// nobody in particular.
func question(user, archive string, now time.Time) fga.Query {
	q := fga.Query{Relation: "can_view", Object: archive, At: now, HighConsistency: true}
	if organization, ok := strings.CutSuffix(user, "#member"); ok {
		q.Subject = "any-member-" + uuid.NewString()
		q.Organizations = []string{strings.TrimPrefix(organization, "organization:")}
		return q
	}
	q.Subject = strings.TrimPrefix(user, "user:")
	return q
}

func shared(t fga.Tuple, now time.Time) string {
	until, timed := t.Until()
	switch {
	case !timed:
		return "shared"
	case !now.Before(until):
		return "shared, lapsed at " + until.Format(time.RFC3339)
	}
	return "shared until " + until.Format(time.RFC3339)
}
