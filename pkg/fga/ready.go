package fga

import (
	"context"
	"fmt"
)

// Ready says whether the engine answers and knows the pinned store and model.
// Its error is one line that names what to do.
func (c *Client) Ready(ctx context.Context) error {
	limited, cancel := c.limit(ctx)
	defer cancel()
	// The store by itself first: asked for a model of an unknown store, the
	// engine blames the model.
	if _, _, err := c.api.GetStore(limited, c.settings.StoreID).Execute(); err != nil {
		return fmt.Errorf("OPENFGA_STORE_ID %s: %w", c.settings.StoreID, c.classify(ctx, "asking for the store", err))
	}
	if _, _, err := c.api.ReadAuthorizationModel(limited, c.settings.StoreID, c.settings.ModelID).Execute(); err != nil {
		return fmt.Errorf("OPENFGA_MODEL_ID %s: %w", c.settings.ModelID, c.classify(ctx, "asking for the model", err))
	}
	return nil
}
