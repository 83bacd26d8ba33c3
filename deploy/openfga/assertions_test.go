package openfga_test

import (
	"context"
	"os"
	"slices"
	"testing"

	sdk "github.com/openfga/go-sdk"
	"go.yaml.in/yaml/v3"

	"github.com/muniment/muniment/deploy/openfga"
	"github.com/muniment/muniment/pkg/testkit"
)

// suite is the part of the engine's own test file form that model.fga.yaml uses.
type suite struct {
	Name      string      `yaml:"name"`
	ModelFile string      `yaml:"model_file"`
	Tuples    []tuple     `yaml:"tuples"`
	Tests     []suiteTest `yaml:"tests"`
}

type suiteTest struct {
	Name        string        `yaml:"name"`
	Tuples      []tuple       `yaml:"tuples"`
	Check       []checks      `yaml:"check"`
	ListObjects []listObjects `yaml:"list_objects"`
}

type tuple struct {
	User      string `yaml:"user"`
	Relation  string `yaml:"relation"`
	Object    string `yaml:"object"`
	Condition *struct {
		Name    string         `yaml:"name"`
		Context map[string]any `yaml:"context"`
	} `yaml:"condition"`
}

type checks struct {
	User       string          `yaml:"user"`
	Object     string          `yaml:"object"`
	Context    map[string]any  `yaml:"context"`
	Assertions map[string]bool `yaml:"assertions"`
}

type listObjects struct {
	User       string              `yaml:"user"`
	Type       string              `yaml:"type"`
	Context    map[string]any      `yaml:"context"`
	Assertions map[string][]string `yaml:"assertions"`
}

// TestModelAssertions runs model.fga.yaml on the real engine. The suite's own
// tuples are stored; a test's tuples travel with its questions, as claimed
// memberships do.
func TestModelAssertions(t *testing.T) {
	t.Parallel()
	s := loadSuite(t)
	engine := testkit.OpenFGA(t)
	deployed, err := openfga.Deploy(t.Context(), openfga.Target{APIURL: engine.APIURL, StoreName: t.Name() + "-" + engine.StoreID})
	if err != nil {
		t.Fatal(err)
	}
	api := client(t, engine.APIURL)
	write(t, api, deployed, s.Tuples)

	for _, test := range s.Tests {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			contextual := sdk.NewContextualTupleKeys(keys(test.Tuples))
			for _, c := range test.Check {
				for relation, want := range c.Assertions {
					reply, _, err := api.Check(t.Context(), deployed.StoreID).Body(sdk.CheckRequest{
						TupleKey:             sdk.CheckRequestTupleKey{User: c.User, Relation: relation, Object: c.Object},
						ContextualTuples:     contextual,
						AuthorizationModelId: &deployed.ModelID,
						Context:              &c.Context,
					}).Execute()
					if err != nil {
						t.Fatalf("%s %s %s: %v", c.User, relation, c.Object, err)
					}
					if reply.GetAllowed() != want {
						t.Errorf("%s %s %s at %v: got %v, want %v", c.User, relation, c.Object, c.Context["current_time"], !want, want)
					}
				}
			}
			for _, l := range test.ListObjects {
				for relation, want := range l.Assertions {
					reply, _, err := api.ListObjects(t.Context(), deployed.StoreID).Body(sdk.ListObjectsRequest{
						User: l.User, Relation: relation, Type: l.Type,
						ContextualTuples:     contextual,
						AuthorizationModelId: &deployed.ModelID,
						Context:              &l.Context,
					}).Execute()
					if err != nil {
						t.Fatalf("listing what %s %s: %v", l.User, relation, err)
					}
					if got := slices.Sorted(slices.Values(reply.GetObjects())); !slices.Equal(got, want) {
						t.Errorf("%s lists %s as %v, want %v", l.User, relation, got, want)
					}
				}
			}
		})
	}
}

func TestDeployTwiceMakesNoNewVersion(t *testing.T) {
	t.Parallel()
	engine := testkit.OpenFGA(t)
	target := openfga.Target{APIURL: engine.APIURL, StoreName: t.Name() + "-" + engine.StoreID}
	first, err := openfga.Deploy(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	if !first.NewModel {
		t.Error("the first deployment wrote no model")
	}
	// Somebody's other model on top must not make ours a new one.
	api := client(t, engine.APIURL)
	other := sdk.WriteAuthorizationModelRequest{SchemaVersion: "1.1", TypeDefinitions: []sdk.TypeDefinition{{Type: "user"}}}
	if _, _, err := api.WriteAuthorizationModel(t.Context(), first.StoreID).Body(other).Execute(); err != nil {
		t.Fatal(err)
	}
	second, err := openfga.Deploy(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	if want := (openfga.Deployed{StoreID: first.StoreID, ModelID: first.ModelID}); second != want {
		t.Errorf("the second deployment gave %+v, want %+v", second, want)
	}
	models, _, err := api.ReadAuthorizationModels(t.Context(), first.StoreID).Execute()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(models.AuthorizationModels); n != 2 {
		t.Errorf("the store holds %d models, want ours and the other", n)
	}
}

func loadSuite(t *testing.T) suite {
	t.Helper()
	text, err := os.ReadFile("model.fga.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var s suite
	if err := yaml.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if s.ModelFile != "./model.fga" || len(s.Tests) == 0 {
		t.Fatalf("model.fga.yaml names %q and holds %d tests", s.ModelFile, len(s.Tests))
	}
	return s
}

func client(t *testing.T, url string) sdk.OpenFgaApi {
	t.Helper()
	cfg, err := sdk.NewConfiguration(sdk.Configuration{ApiUrl: url})
	if err != nil {
		t.Fatal(err)
	}
	return sdk.NewAPIClient(cfg).OpenFgaApi
}

func write(t *testing.T, api sdk.OpenFgaApi, deployed openfga.Deployed, tuples []tuple) {
	t.Helper()
	request := sdk.WriteRequest{AuthorizationModelId: &deployed.ModelID, Writes: sdk.NewWriteRequestWrites(keys(tuples))}
	if _, _, err := api.Write(context.Background(), deployed.StoreID).Body(request).Execute(); err != nil {
		t.Fatal(err)
	}
}

func keys(tuples []tuple) []sdk.TupleKey {
	all := make([]sdk.TupleKey, 0, len(tuples))
	for _, t := range tuples {
		key := sdk.TupleKey{User: t.User, Relation: t.Relation, Object: t.Object}
		if t.Condition != nil {
			key.Condition = &sdk.RelationshipCondition{Name: t.Condition.Name, Context: &t.Condition.Context}
		}
		all = append(all, key)
	}
	return all
}
