package daemon

import (
	"errors"
	"fmt"
	"testing"

	"github.com/muniment/muniment/pkg/config"
)

func TestATakenAddressIsNamedInFull(t *testing.T) {
	t.Parallel()
	taken := &config.SettingError{Setting: "GRPC_ADDRESS", Err: errors.New("bind: address already in use")}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("serving: %w", taken), "MUNIMENT_RELAY_GRPC_ADDRESS: bind: address already in use"},
		{errors.New("anything else,\nin two lines"), "anything else, in two lines"},
	} {
		if got := OneLine(named("MUNIMENT_RELAY_", tc.err)); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
