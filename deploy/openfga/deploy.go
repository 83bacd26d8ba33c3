package openfga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	sdk "github.com/openfga/go-sdk"
)

// Target says where to deploy. Give StoreID for an existing store, or StoreName
// for one that is found by its name and made when there is none.
type Target struct {
	APIURL    string
	Token     string
	StoreID   string
	StoreName string
}

// Deployed are the ids to pin.
type Deployed struct {
	StoreID, ModelID string
	// NewModel is false when the store held this very model already.
	NewModel bool
}

// Deploy brings the model to the engine. A model that the store already holds,
// as its newest version or an earlier one, is not written again: its id is
// returned. Nothing follows a new model by itself, because every client pins.
func Deploy(ctx context.Context, target Target) (Deployed, error) {
	client, err := connect(target)
	if err != nil {
		return Deployed{}, err
	}
	store := target.StoreID
	if store == "" {
		if store, err = storeNamed(ctx, client, target.StoreName); err != nil {
			return Deployed{}, err
		}
	}
	model, err := Model()
	if err != nil {
		return Deployed{}, err
	}
	known, err := find(ctx, client, store, model)
	if err != nil {
		return Deployed{}, err
	}
	if known != "" {
		return Deployed{StoreID: store, ModelID: known}, nil
	}
	var request sdk.WriteAuthorizationModelRequest
	if err := json.Unmarshal(model, &request); err != nil {
		return Deployed{}, fmt.Errorf("decoding the model: %w", err)
	}
	written, _, err := client.WriteAuthorizationModel(ctx, store).Body(request).Execute()
	if err != nil {
		return Deployed{}, fmt.Errorf("writing the model: %w", err)
	}
	return Deployed{StoreID: store, ModelID: written.AuthorizationModelId, NewModel: true}, nil
}

func connect(target Target) (sdk.OpenFgaApi, error) {
	headers := map[string]string{}
	if target.Token != "" {
		headers["Authorization"] = "Bearer " + target.Token
	}
	cfg, err := sdk.NewConfiguration(sdk.Configuration{
		ApiUrl:         target.APIURL,
		DefaultHeaders: headers,
		HTTPClient:     &http.Client{Timeout: 10 * time.Second},
		RetryParams:    &sdk.RetryParams{MaxRetry: 0, MinWaitInMs: 1},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the client of the authorization engine: %w", err)
	}
	return sdk.NewAPIClient(cfg).OpenFgaApi, nil
}

// storeNamed finds the one store of that name, or makes it. Names are not
// unique in the engine, so two are an error and not a choice.
func storeNamed(ctx context.Context, client sdk.OpenFgaApi, name string) (string, error) {
	if name == "" {
		return "", errors.New("neither a store id nor a store name is given")
	}
	found, _, err := client.ListStores(ctx).Name(name).PageSize(2).Execute()
	if err != nil {
		return "", fmt.Errorf("looking for the store %q: %w", name, err)
	}
	switch len(found.Stores) {
	case 0:
		made, _, err := client.CreateStore(ctx).Body(sdk.CreateStoreRequest{Name: name}).Execute()
		if err != nil {
			return "", fmt.Errorf("making the store %q: %w", name, err)
		}
		return made.Id, nil
	case 1:
		return found.Stores[0].Id, nil
	}
	return "", fmt.Errorf("there are several stores named %q: give the id of one", name)
}

// find returns the id of the store's newest version of this model, or "".
func find(ctx context.Context, client sdk.OpenFgaApi, store string, model json.RawMessage) (string, error) {
	want, err := normalForm(model)
	if err != nil {
		return "", err
	}
	request := client.ReadAuthorizationModels(ctx, store).PageSize(50)
	for {
		page, _, err := request.Execute()
		if err != nil {
			return "", fmt.Errorf("reading the store's models: %w", err)
		}
		for _, m := range page.AuthorizationModels {
			text, err := json.Marshal(m)
			if err != nil {
				return "", fmt.Errorf("encoding the model %s: %w", m.Id, err)
			}
			// A model of somebody else's making may be beyond our language
			// version; it is not ours then.
			if have, err := normalForm(text); err == nil && have == want {
				return m.Id, nil
			}
		}
		if page.GetContinuationToken() == "" {
			return "", nil
		}
		request = request.ContinuationToken(page.GetContinuationToken())
	}
}
