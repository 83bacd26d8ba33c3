// Command muniment-model brings the authorization model to OpenFGA and prints
// the ids to pin, in the form of shell assignments. Run again with an unchanged
// model it writes nothing and prints the same ids.
//
// Settings: OPENFGA_API_URL; OPENFGA_STORE_ID, or OPENFGA_STORE_NAME (default
// muniment) for a store that is made when there is none; OPENFGA_TOKEN_FILE
// where the engine asks for a preshared key.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/muniment/muniment/deploy/openfga"
	"github.com/muniment/muniment/pkg/daemon"
)

func main() { daemon.Main("muniment-model", "", run) }

func run(ctx context.Context, _ []string) error {
	target := openfga.Target{
		APIURL:    os.Getenv("OPENFGA_API_URL"),
		StoreID:   os.Getenv("OPENFGA_STORE_ID"),
		StoreName: cmp.Or(os.Getenv("OPENFGA_STORE_NAME"), "muniment"),
	}
	if target.APIURL == "" {
		return errors.New("OPENFGA_API_URL is required and not set")
	}
	if file := os.Getenv("OPENFGA_TOKEN_FILE"); file != "" {
		token, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading OPENFGA_TOKEN_FILE: %w", err)
		}
		target.Token = strings.TrimRight(string(token), "\r\n")
	}
	deployed, err := openfga.Deploy(ctx, target)
	if err != nil {
		return err
	}
	state := "# the store held this model already"
	if deployed.NewModel {
		state = "# a new model; nothing uses it until its id is pinned (docs/openfga-upgrade.md)"
	}
	fmt.Printf("%s\nOPENFGA_STORE_ID=%s\nOPENFGA_MODEL_ID=%s\n", state, deployed.StoreID, deployed.ModelID)
	return nil
}
