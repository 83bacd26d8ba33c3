package testkit

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"testing"
)

// FGA is a store of one test on the running OpenFGA, with the model of
// deploy/openfga.
type FGA struct {
	APIURL, StoreID, ModelID string
}

// OpenFGA makes a fresh store, writes the model and deletes the store at the
// test's end.
func OpenFGA(t testing.TB) FGA {
	t.Helper()
	return FGA{APIURL: setting(t, "OPENFGA_URL")}.fresh(t)
}

// fresh makes the test's store.
func (f FGA) fresh(t testing.TB) FGA {
	t.Helper()
	model, err := os.ReadFile(setting(t, "OPENFGA_MODEL"))
	if err != nil {
		t.Fatalf("reading the authorization model: %v", err)
	}
	var store struct {
		ID string `json:"id"`
	}
	f.call(t, http.MethodPost, "/stores", []byte(`{"name":"test"}`), &store)
	f.StoreID = store.ID
	t.Cleanup(func() { f.call(t, http.MethodDelete, "/stores/"+f.StoreID, nil, nil) })
	f.ModelID = f.WriteModel(t, model)
	return f
}

// GRPCAddress is where the engine speaks gRPC, host:port.
func (f FGA) GRPCAddress(t testing.TB) string {
	t.Helper()
	return setting(t, "OPENFGA_GRPC")
}

// WriteModel writes a model (JSON) into the store and returns its id; the
// pinned ModelID stays.
func (f FGA) WriteModel(t testing.TB, model []byte) string {
	t.Helper()
	var written struct {
		ID string `json:"authorization_model_id"`
	}
	f.call(t, http.MethodPost, "/stores/"+f.StoreID+"/authorization-models", model, &written)
	return written.ID
}

func (f FGA) call(t testing.TB, method, path string, body []byte, reply any) {
	t.Helper()
	req, err := http.NewRequest(method, f.APIURL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatalf("preparing the call of OpenFGA: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("calling OpenFGA: %v", err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("OpenFGA answers %s %s with %s: %s %v", method, path, resp.Status, content, err)
	}
	if reply == nil {
		return
	}
	if err := json.Unmarshal(content, reply); err != nil {
		t.Fatalf("reading OpenFGA's answer: %v", err)
	}
}
