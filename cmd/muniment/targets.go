package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

const targetsUsage = `targets list                                            the pages that an organization wants captured
  muniment targets add [FILE] [--label L]...              add one URL a line, of FILE or standard input; # begins a comment
  muniment targets enable|disable|remove [FILE]           the same for targets that are there
                                                          all: [--org ORG], and MUNIMENT_TOKEN or --subject S`

// targetsPerCall is how many the gateway takes at once.
const targetsPerCall = 10000

// runTargets keeps an organization's targets, through the gateway.
func runTargets(ctx context.Context, sh shell, args []string) error {
	if len(args) == 0 {
		return errors.New("one of add, list, enable, disable and remove is needed")
	}
	flags := flag.NewFlagSet("muniment targets", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	t := targets{shell: sh}
	subject := flags.String("subject", "", "whose token to take from the local stack's issuer")
	flags.StringVar(&t.organization, "org", "", "the organization; without it, the first that the caller may submit for")
	flags.Func("label", "a label of what is added", func(label string) error {
		t.labels = append(t.labels, label)
		return nil
	})
	file, err := oneArgument(flags, args[1:])
	if err != nil {
		return err
	}
	work := map[string]func(context.Context, []string) error{
		"add":     t.add,
		"enable":  t.each("enabled", t.enable(true)),
		"disable": t.each("disabled", t.enable(false)),
		"remove":  t.each("removed", t.remove),
	}[args[0]]
	switch {
	case work == nil && args[0] != "list":
		return fmt.Errorf("unknown argument %q; one of add, list, enable, disable and remove is needed", args[0])
	case work == nil && file != "":
		return fmt.Errorf("unexpected argument %q", file)
	case args[0] != "add" && len(t.labels) > 0:
		return errors.New("--label goes with add")
	}
	if t.gateway, err = sh.gateway(ctx, *subject, t.organization); err != nil {
		return err
	}
	if work == nil {
		return t.list(ctx)
	}
	lines, err := readLines(sh.in, file)
	if err != nil {
		return err
	}
	return work(ctx, lines)
}

// oneArgument parses flags before and after an argument that may be left out.
func oneArgument(flags *flag.FlagSet, args []string) (string, error) {
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		return "", err
	}
	argument := flags.Arg(0)
	if err := flags.Parse(flags.Args()[1:]); err != nil {
		return "", err
	}
	if flags.NArg() > 0 {
		return "", fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return argument, nil
}

// readLines reads one URL a line, each once. A # begins a comment where a line
// or a word begins: within a URL it does not.
func readLines(in io.Reader, file string) ([]string, error) {
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	var lines []string
	seen := map[string]bool{}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line, _, _ := strings.Cut(" "+strings.ReplaceAll(scanner.Text(), "\t", " "), " #")
		if line = strings.TrimSpace(line); line != "" && !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading the URLs: %w", err)
	}
	return lines, nil
}

// targets are those of one organization, as one caller may see them.
type targets struct {
	shell
	gateway      gateway
	organization string
	labels       []string
}

// target is a row of the gateway.
type target struct {
	ID      int64    `json:"id"`
	URL     string   `json:"url"`
	Labels  []string `json:"labels"`
	Enabled bool     `json:"enabled"`
}

// all reads every page.
func (t *targets) all(ctx context.Context) ([]target, error) {
	var found []target
	query := url.Values{}
	if t.organization != "" {
		query.Set("orgId", t.organization)
	}
	for {
		var page struct {
			Targets []target `json:"targets"`
			Next    *string  `json:"nextPageToken"`
		}
		if err := t.gateway.call(ctx, "GET", "/api/targets?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		found = append(found, page.Targets...)
		if page.Next == nil {
			return found, nil
		}
		query.Set("pageToken", *page.Next)
	}
}

func (t *targets) list(ctx context.Context) error {
	all, err := t.all(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, "ID\tSTATE\tURL\tLABELS"); err != nil {
		return err
	}
	for _, one := range all {
		state := "disabled"
		if one.Enabled {
			state = "enabled"
		}
		if _, err := fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", one.ID, state, one.URL, strings.Join(one.Labels, ", ")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// byURL is what is there. The gateway's reply to an addition counts, and tells
// only of the refused which they are.
func (t *targets) byURL(ctx context.Context) (map[string]target, error) {
	all, err := t.all(ctx)
	known := make(map[string]target, len(all))
	for _, one := range all {
		known[one.URL] = one
	}
	return known, err
}

func (t *targets) add(ctx context.Context, urls []string) error {
	known, err := t.byURL(ctx)
	if err != nil {
		return err
	}
	var added, there, refused int
	for chunk := range slices.Chunk(urls, targetsPerCall) {
		reply, err := t.post(ctx, chunk)
		if err != nil {
			return err
		}
		reasons := map[string]string{}
		for _, r := range reply.Refused {
			reasons[r.URL] = r.Reason
		}
		added, there, refused = added+reply.Added, there+reply.Known, refused+len(reply.Refused)
		for _, line := range chunk {
			said := "added " + line
			if _, ok := known[line]; ok {
				said = "there already " + line
			}
			if reason, ok := reasons[line]; ok {
				said = "refused " + line + ": " + reason
			}
			if _, err := fmt.Fprintln(t.out, said); err != nil {
				return err
			}
		}
	}
	if _, err := fmt.Fprintf(t.out, "%d added, %d there already, %d refused\n", added, there, refused); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d targets were refused", refused, len(urls))
	}
	return nil
}

// addReply is what the gateway says of an addition.
type addReply struct {
	Added, Known int
	Refused      []struct{ URL, Reason string }
}

func (t *targets) post(ctx context.Context, urls []string) (addReply, error) {
	type newTarget struct {
		URL    string   `json:"url"`
		Labels []string `json:"labels,omitempty"`
	}
	var body struct {
		OrgID   string      `json:"orgId,omitempty"`
		Targets []newTarget `json:"targets"`
	}
	body.OrgID = t.organization
	for _, line := range urls {
		body.Targets = append(body.Targets, newTarget{line, t.labels})
	}
	var reply addReply
	return reply, t.gateway.call(ctx, "POST", "/api/targets", body, &reply)
}

// each does something to targets that are there, and says of which it was none.
func (t *targets) each(did string, do func(context.Context, target) error) func(context.Context, []string) error {
	return func(ctx context.Context, urls []string) error {
		known, err := t.byURL(ctx)
		if err != nil {
			return err
		}
		missing := 0
		for _, line := range urls {
			said := did + " " + line
			one, ok := known[line]
			if !ok {
				missing++
				said = "not there " + line
			} else if err := do(ctx, one); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(t.out, said); err != nil {
				return err
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d targets are not there", missing, len(urls))
		}
		return nil
	}
}

func (t *targets) enable(enabled bool) func(context.Context, target) error {
	return func(ctx context.Context, one target) error {
		return t.gateway.call(ctx, "PATCH", fmt.Sprintf("/api/targets/%d", one.ID), map[string]bool{"enabled": enabled}, &one)
	}
}

func (t *targets) remove(ctx context.Context, one target) error {
	var reply struct{ Removed bool }
	return t.gateway.call(ctx, "DELETE", fmt.Sprintf("/api/targets/%d", one.ID), nil, &reply)
}
