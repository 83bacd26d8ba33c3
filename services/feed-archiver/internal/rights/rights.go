// Package rights holds the rights register: for each source, by what right its
// bodies are kept and shown. It is data with a few checks; the decisions that
// follow from it are the writer's and the server's.
package rights

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

//go:embed rights.yaml
var checkedIn []byte

// Entry is what was found out about one rights id.
type Entry struct {
	// Authority is the publisher.
	Authority string `yaml:"authority"`
	// Policy is where the licence or the policy text stands.
	Policy string `yaml:"policy"`
	// Basis says in a sentence what that text allows.
	Basis string `yaml:"basis"`
	// StoragePermitted and RedistributionPermitted are yes or no; nothing else
	// counts as a yes.
	StoragePermitted        Permission `yaml:"storage_permitted"`
	RedistributionPermitted Permission `yaml:"redistribution_permitted"`
	// ReviewedOn is the day on which somebody read the policy, YYYY-MM-DD.
	ReviewedOn string `yaml:"reviewed_on"`
}

// Permission is yes, or it is no.
type Permission bool

// UnmarshalYAML takes the words yes and no, so that a typing error is an error.
func (p *Permission) UnmarshalYAML(node *yaml.Node) error {
	switch node.Value {
	case "yes":
		*p = true
	case "no":
		*p = false
	default:
		return fmt.Errorf("line %d: a permission is yes or no, not %q", node.Line, node.Value)
	}
	return nil
}

// Register maps a source's name to its entry.
type Register map[string]Entry

// CheckedIn returns the register of this build.
func CheckedIn() (Register, error) { return Parse(checkedIn) }

// Parse reads a register and refuses one that leaves anything open.
func Parse(text []byte) (Register, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var r Register
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("reading the rights register: %w", err)
	}
	for _, name := range r.Sources() {
		e := r[name]
		if e.Authority == "" || e.Policy == "" || e.Basis == "" {
			return nil, fmt.Errorf("the rights register's entry %s needs authority, policy and basis", name)
		}
		if !strings.HasPrefix(e.Policy, "https://") {
			return nil, fmt.Errorf("the rights register's entry %s needs as policy the address of a text: https://…", name)
		}
		if _, err := time.Parse(time.DateOnly, e.ReviewedOn); err != nil {
			return nil, fmt.Errorf("the rights register's entry %s needs reviewed_on as YYYY-MM-DD", name)
		}
	}
	return r, nil
}

// Sources returns the names in order.
func (r Register) Sources() []string { return slices.Sorted(maps.Keys(r)) }

// MayStore says whether the source's bodies may be kept; an unknown source's
// may not.
func (r Register) MayStore(source string) bool { return bool(r[source].StoragePermitted) }

// MayRedistribute says whether they may be shown to the public.
func (r Register) MayRedistribute(source string) bool { return bool(r[source].RedistributionPermitted) }
