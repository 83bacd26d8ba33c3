package sink

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/objstore"
	"github.com/muniment/muniment/pkg/testkit"
)

// fakeCrawls knows one crawl, and which keys are admitted.
type fakeCrawls struct {
	crawl uuid.UUID

	mu       sync.Mutex
	admitted map[string]bool
	recorded map[string]string
}

func (f *fakeCrawls) SinkPrefix(_ context.Context, crawl uuid.UUID) (string, error) {
	if crawl != f.crawl {
		return "", ErrNoCrawl
	}
	return "org/acme/2026-11/", nil
}

func (f *fakeCrawls) Admitted(_ context.Context, _, key string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.admitted[key], nil
}

func (f *fakeCrawls) RecordManifest(_ context.Context, _ uuid.UUID, key string, manifest []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !json.Valid(manifest) {
		return fmt.Errorf("%w: $: not JSON", ErrUnreadable)
	}
	f.recorded[key] = string(manifest)
	return nil
}

type bundle struct {
	crawls *fakeCrawls
	s3     *minio.Client
	bucket string
	tokens Tokens
	server *httptest.Server
}

func setup(t *testing.T) *bundle {
	t.Helper()
	bucket := testkit.Bucket(t)
	s3, err := objstore.NewS3(config.Store{
		Endpoint: bucket.Endpoint, Region: bucket.Region, Bucket: bucket.Bucket, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{
		crawls: &fakeCrawls{crawl: uuid.New(), admitted: map[string]bool{}, recorded: map[string]string{}},
		s3:     s3, bucket: bucket.Bucket, tokens: NewTokens(bytes.Repeat([]byte("k"), 32)),
	}
	handler := New(b.crawls, &minio.Core{Client: s3}, b.tokens, Settings{Bucket: b.bucket, Uploads: 4, Timeout: time.Minute},
		prometheus.NewRegistry(), zaptest.NewLogger(t), time.Now)
	mux := http.NewServeMux()
	mux.Handle("PUT /api/sink/{crawlId}/{filename}", handler)
	b.server = httptest.NewServer(mux)
	t.Cleanup(b.server.Close)
	return b
}

// put sends a body under an escaped file name, and returns status and reply.
func (b *bundle) put(t *testing.T, token, escapedName string, body io.Reader) (int, map[string]string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, b.server.URL+"/api/sink/"+b.crawls.crawl.String()+"/"+escapedName, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var reply map[string]string
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, reply
}

func (b *bundle) token() string { return b.tokens.Issue(b.crawls.crawl, time.Now().Add(time.Hour)) }

func (b *bundle) read(t *testing.T, key string) []byte {
	t.Helper()
	object, err := b.s3.GetObject(t.Context(), b.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// T04: the name is decoded exactly once and kept.
func TestT04NameIsDecodedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for escaped, name := range map[string]string{
		"urn%3Aoid%3A1.wacz": "urn:oid:1.wacz",
		"urn:oid:2.wacz":     "urn:oid:2.wacz",
		"a%20b%2Bc.wacz":     "a b+c.wacz",
		"100%2525.wacz":      "100%25.wacz",
		"%E6%B8%AF.wacz":     "港.wacz",
	} {
		status, reply := b.put(t, b.token(), escaped, strings.NewReader("body of "+name))
		if want := "s3://" + b.bucket + "/org/acme/2026-11/" + name; status != http.StatusOK || reply["location"] != want {
			t.Errorf("%s: %d %v, want %s", escaped, status, reply, want)
			continue
		}
		if got := b.read(t, "org/acme/2026-11/"+name); string(got) != "body of "+name {
			t.Errorf("%s: stored %q", escaped, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.crawls.admitted["org/acme/2026-11/taken.wacz"] = true
	other := b.tokens.Issue(uuid.New(), time.Now().Add(time.Hour))
	for name, tc := range map[string]struct {
		token, file, body string
		status            int
	}{
		"encoded slash":  {b.token(), "x%2Fy.wacz", "x", 400},
		"backslash":      {b.token(), "x%5Cy.wacz", "x", 400},
		"NUL":            {b.token(), "x%00.wacz", "x", 400},
		"dots":           {b.token(), "%2e%2e", "x", 400},
		"not UTF-8":      {b.token(), "%ff.wacz", "x", 400},
		"256 bytes":      {b.token(), strings.Repeat("x", 256), "x", 400},
		"empty body":     {b.token(), "a.wacz", "", 400},
		"admitted":       {b.token(), "taken.wacz", "x", 409},
		"another crawl":  {other, "a.wacz", "x", 401},
		"expired":        {b.tokens.Issue(b.crawls.crawl, time.Now().Add(-time.Second)), "a.wacz", "x", 401},
		"no token":       {"", "a.wacz", "x", 401},
		"bad token name": {"", "%ff", "x", 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, reply := b.put(t, tc.token, tc.file, strings.NewReader(tc.body)); status != tc.status || reply["error"] == "" {
				t.Fatalf("%d %v, want %d", status, reply, tc.status)
			}
		})
	}
}

// A body of several parts arrives byte for byte, and a second upload of the name
// wins while both stay as versions.
func TestLargeBodyAndVersions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	data := make([]byte, 2*partSize+12345)
	_, _ = rand.Read(data)
	for _, body := range [][]byte{data[:partSize], data[:2*partSize], data[:partSize-1], data} {
		if status, reply := b.put(t, b.token(), "big.wacz", bytes.NewReader(body)); status != http.StatusOK {
			t.Fatalf("%d bytes: %d %v", len(body), status, reply)
		}
		if !bytes.Equal(b.read(t, "org/acme/2026-11/big.wacz"), body) {
			t.Fatalf("%d bytes: stored others", len(body))
		}
	}
	versions := 0
	for range b.s3.ListObjects(t.Context(), b.bucket, minio.ListObjectsOptions{Prefix: "org/", Recursive: true, WithVersions: true}) {
		versions++
	}
	if versions != 4 {
		t.Fatalf("%d versions of four uploads", versions)
	}
}

// An upload that breaks off, whatever its Content-Length said, leaves nothing.
func TestBrokenUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, sent := range []int{100, partSize + 100} {
		conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "PUT /api/sink/%s/broken.wacz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n",
			b.crawls.crawl, b.token(), 3*partSize)
		_, _ = conn.Write(make([]byte, sent))
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}
	if _, err := b.s3.StatObject(t.Context(), b.bucket, "org/acme/2026-11/broken.wacz", minio.StatObjectOptions{}); err == nil {
		t.Fatal("half an object is there")
	}
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		n := 0
		for range b.s3.ListIncompleteUploads(t.Context(), b.bucket, "", true) {
			n++
		}
		return n == 0, fmt.Sprintf("%d unfinished uploads are left", n)
	})
}

// What reaches the store with other bytes than were sent is refused there, be it
// a whole object or one part of many, over HTTP and over TLS (which the client
// signs in different ways), and nothing of it stays.
func TestBytesChangedOnTheWay(t *testing.T) {
	t.Parallel()
	bucket := testkit.Bucket(t)
	storeURL, err := url.Parse(bucket.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	way := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(storeURL)
		r.Out.Host = r.In.Host // the signature covers it
		part := r.In.URL.Query().Get("partNumber")
		if sum, err := base64.StdEncoding.DecodeString(r.In.Header.Get("X-Amz-Checksum-Crc32c")); r.In.Method == http.MethodPut && (err != nil || len(sum) != 4) {
			t.Errorf("part %q goes without a checksum, which a bucket that locks objects refuses: %v", part, r.In.Header)
		}
		if r.In.Method == http.MethodPut && (part == "" || part == "2") {
			data, _ := io.ReadAll(r.In.Body)
			data[len(data)/2] ^= 1
			r.Out.Body = io.NopCloser(bytes.NewReader(data))
		}
	}}
	for scheme, server := range map[string]*httptest.Server{"http": httptest.NewServer(way), "https": httptest.NewTLSServer(way)} {
		t.Cleanup(server.Close)
		s3, err := minio.New(server.Listener.Addr().String(), &minio.Options{
			Creds: credentials.NewStaticV4(bucket.AccessKey, bucket.SecretKey, ""), Region: bucket.Region, BucketLookup: minio.BucketLookupPath,
			Secure: scheme == "https", Transport: server.Client().Transport, MaxRetries: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{1000, 2*partSize + 1000} {
			to := target{store: &minio.Core{Client: s3}, bucket: bucket.Bucket, key: "changed"}
			err := upload(t.Context(), to, io.LimitReader(zeros{}, size), MaxBytes, func() error { return nil })
			var refusal minio.ErrorResponse
			switch {
			case !errors.As(err, &refusal):
				t.Errorf("%s, %d bytes: %v", scheme, size, err)
			case scheme == "https" && refusal.Code != "XAmzContentSHA256Mismatch":
				// Over HTTP the chunks are signed, the store hangs up at the first that
				// does not fit, and all that is certain is that it refused.
				t.Errorf("%s, %d bytes: %v (%s)", scheme, size, err, refusal.Code)
			}
			if _, err := s3.StatObject(t.Context(), bucket.Bucket, "changed", minio.StatObjectOptions{}); err == nil {
				t.Errorf("%s, %d bytes: the object is there", scheme, size)
			}
		}
		for u := range s3.ListIncompleteUploads(t.Context(), bucket.Bucket, "", true) {
			t.Errorf("left behind: %s", u.Key)
		}
	}
}

// More than the limit is refused although no Content-Length said so.
func TestBodyOverTheLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	endless := io.LimitReader(zeros{}, 3*partSize)
	err := upload(t.Context(), target{store: &minio.Core{Client: b.s3}, bucket: b.bucket, key: "over"}, endless, 2*partSize, func() error { return nil })
	if err == nil || !strings.Contains(err.Error(), errTooLarge.Error()) {
		t.Fatalf("got %v", err)
	}
	for u := range b.s3.ListIncompleteUploads(t.Context(), b.bucket, "", true) {
		t.Errorf("left behind: %s", u.Key)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A name that was admitted while its second upload was under way is not
// overwritten.
func TestAdmittedMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const key = "org/acme/2026-11/late.wacz"
	reader, writer := io.Pipe()
	go func() {
		_, _ = writer.Write(make([]byte, partSize+1))
		b.crawls.mu.Lock()
		b.crawls.admitted[key] = true
		b.crawls.mu.Unlock()
		_ = writer.Close()
	}()
	if status, _ := b.put(t, b.token(), "late.wacz", reader); status != http.StatusConflict {
		t.Fatalf("status %d", status)
	}
	if _, err := b.s3.StatObject(t.Context(), b.bucket, key, minio.StatObjectOptions{}); err == nil {
		t.Fatal("the object is there")
	}
}

// A manifest is recorded at once; one that cannot be read is stored all the same.
func TestManifestIsRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, recorded := range map[string]bool{"a.result.json": true, "broken.result.json": false} {
		body := `{"taskId":"x"}`
		if !recorded {
			body = `{"taskId":`
		}
		if status, reply := b.put(t, b.token(), name, strings.NewReader(body)); status != http.StatusOK {
			t.Fatalf("%s: %d %v", name, status, reply)
		}
		key := "org/acme/2026-11/" + name
		if string(b.read(t, key)) != body {
			t.Errorf("%s is not stored", name)
		}
		if _, ok := b.crawls.recorded[key]; ok != recorded {
			t.Errorf("%s: recorded is %t", name, ok)
		}
	}
}
