package demo

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

	"github.com/muniment/muniment/deploy/local/internal/engines"
)

// read is step 3: who sees what.
func (w *walk) read(ctx context.Context) error {
	var err error
	if w.archives, err = w.list(ctx, alice); err != nil {
		return err
	}
	w.sayf("GET /api/archives as alice: %d archives", len(w.archives))
	registered, err := w.number(ctx, "SELECT count(*) FROM ledger.archives")
	if err != nil {
		return err
	}
	if err := equal("archives that alice sees", len(w.archives), registered); err != nil {
		return err
	}
	if len(w.archives) == 0 {
		return errors.New("there is nothing to read")
	}
	first := w.archives[0]
	if err := w.download(ctx, first); err != nil {
		return err
	}
	return w.refused(ctx, first)
}

// download gets a signed URL and fetches it as anybody could.
func (w *walk) download(ctx context.Context, a archive) error {
	var signed struct {
		URL       string `json:"url"`
		ExpiresIn int    `json:"expiresIn"`
	}
	if err := w.call(ctx, alice, http.MethodPost, "/api/archives/"+a.ID+"/url", nil, http.StatusOK, &signed); err != nil {
		return err
	}
	w.sayf("POST /api/archives/%s/url as alice: a URL for %d seconds", a.ID, signed.ExpiresIn)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, signed.URL, nil)
	if err != nil {
		return fmt.Errorf("reading the signed URL: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("downloading: %w", err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("downloading: %w", err)
	}
	if err := equal("status of the download", resp.StatusCode, http.StatusOK); err != nil {
		return err
	}
	stored, err := w.object(ctx, a.ObjectKey)
	if err != nil {
		return err
	}
	got, want := sha256.Sum256(content), sha256.Sum256(stored)
	w.sayf("GET that URL, plain HTTP: %d bytes, SHA-256 %s", len(content), hex.EncodeToString(got[:]))
	if err := equal("SHA-256 of the download", hex.EncodeToString(got[:]), hex.EncodeToString(want[:])); err != nil {
		return err
	}
	w.sayf("  the same as the object's")
	return w.isWACZ(content)
}

func (w *walk) object(ctx context.Context, key string) ([]byte, error) {
	store, err := w.stack.Engines.Store.Client()
	if err != nil {
		return nil, err
	}
	object, err := store.GetObject(ctx, engines.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	defer func() { _ = object.Close() }()
	content, err := io.ReadAll(object)
	if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	return content, nil
}

// isWACZ looks for the files that make a zip a WACZ.
func (w *walk) isWACZ(content []byte) error {
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return fmt.Errorf("opening the WACZ: %w", err)
	}
	var names []string
	for _, f := range archive.File {
		names = append(names, f.Name)
	}
	for _, want := range []string{"datapackage.json", "pages/pages.jsonl"} {
		if !slices.Contains(names, want) {
			return fmt.Errorf("the WACZ holds %v and no %s", names, want)
		}
	}
	w.sayf("  a WACZ with %v", names)
	return nil
}

// refused is what a stranger gets: nothing, the same as for what is not there.
func (w *walk) refused(ctx context.Context, a archive) error {
	seen, err := w.list(ctx, mallory)
	if err != nil {
		return err
	}
	w.sayf("GET /api/archives as mallory of beta: %d archives", len(seen))
	if err := equal("archives that mallory sees", len(seen), 0); err != nil {
		return err
	}
	for _, call := range []struct {
		who          caller
		method, path string
		want         int
	}{
		{mallory, http.MethodGet, "/api/archives/" + a.ID, http.StatusNotFound},
		{mallory, http.MethodPost, "/api/archives/" + a.ID + "/url", http.StatusNotFound},
		{nobody, http.MethodGet, "/api/archives", http.StatusUnauthorized},
		{nobody, http.MethodPost, "/api/archives/" + a.ID + "/url", http.StatusUnauthorized},
	} {
		if err := w.call(ctx, call.who, call.method, call.path, nil, call.want, nil); err != nil {
			return err
		}
		name := call.who.subject
		if name == "" {
			name = "nobody"
		}
		w.sayf("%s %s as %s: %d", call.method, call.path, name, call.want)
	}
	return nil
}
