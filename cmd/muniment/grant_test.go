package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/muniment/muniment/pkg/testkit"
)

// operator runs commands with the settings of one test's engine.
type operator struct{ engine testkit.FGA }

func (o operator) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), shell{out: &out, getenv: func(name string) string {
		return map[string]string{
			"OPENFGA_API_URL": o.engine.APIURL, "OPENFGA_STORE_ID": o.engine.StoreID, "OPENFGA_MODEL_ID": o.engine.ModelID,
		}[name]
	}}, args)
	return out.String(), err
}

func TestGrantAndRevokeSayWhatHoldsNow(t *testing.T) {
	t.Parallel()
	o := operator{testkit.OpenFGA(t)}
	for _, step := range []struct{ command, wrote, now string }{
		{"grant submitter alice acme", "wrote: user:alice submitter organization:acme", "now: alice may submit for acme"},
		{"grant submitter alice acme", "nothing to do for: user:alice submitter organization:acme", "now: alice may submit for acme"},
		{"grant admin alice acme", "wrote: user:alice admin organization:acme", "now: alice may submit for acme"},
		{"revoke submitter alice acme", "removed: user:alice submitter organization:acme", "now: alice may submit for acme"},
		{"revoke admin alice acme", "removed: user:alice admin organization:acme", "now: alice may not submit for acme"},
		{"revoke admin alice acme", "nothing to do for: user:alice admin organization:acme", "now: alice may not submit for acme"},
	} {
		out, err := o.run(t, strings.Fields(step.command)...)
		if err != nil {
			t.Fatalf("%s: %v", step.command, err)
		}
		if !strings.HasPrefix(out, step.wrote+"\n"+step.now) {
			t.Errorf("%s says %q, want %q and %q", step.command, out, step.wrote, step.now)
		}
	}
}

func TestGrantRefuses(t *testing.T) {
	t.Parallel()
	o := operator{}
	for command, want := range map[string]string{
		"grant member alice acme":       "identity provider",
		"grant owner alice acme":        "submitter or admin",
		"grant submitter alice":         "three arguments",
		"grant submitter a:b acme":      "the user must not contain",
		"grant submitter alice ac#me":   "the organization must not contain",
		"grant submitter alice acme":    "OPENFGA_",
		"revoke submitter alice acme x": "three arguments",
	} {
		_, err := o.run(t, strings.Fields(command)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", command, err, want)
		}
	}
}
