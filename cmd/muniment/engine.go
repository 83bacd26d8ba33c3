package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
)

// engine is a client of the authorization engine with the operator's settings:
// OPENFGA_API_URL, OPENFGA_STORE_ID, OPENFGA_MODEL_ID and, where the engine asks
// for a preshared key, OPENFGA_TOKEN_FILE.
func (s shell) engine() (*fga.Client, error) {
	var settings config.OpenFGA
	for name, into := range map[string]*string{
		"OPENFGA_API_URL": &settings.APIURL, "OPENFGA_STORE_ID": &settings.StoreID, "OPENFGA_MODEL_ID": &settings.ModelID,
	} {
		value, err := s.required(name)
		if err != nil {
			return nil, err
		}
		*into = value
	}
	if err := settings.Validate(""); err != nil {
		return nil, err
	}
	if file := s.getenv("OPENFGA_TOKEN_FILE"); file != "" {
		token, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading OPENFGA_TOKEN_FILE: %w", err)
		}
		settings.Token = strings.TrimSpace(string(token))
	}
	return fga.New(settings, time.Now)
}
