package gateway

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	fileHash = strings.Repeat("ab", 32)
	filePath = "/api/v1/archive/products/" + fileHash + "/body"
)

func fileReply(contentType, body string) string {
	return `{"hash":"` + fileHash + `","contentType":"` + contentType + `","body":"` + base64.StdEncoding.EncodeToString([]byte(body)) + `"}`
}

// The stored text is served as it is, to everybody, for ever.
func TestAFileIsServedAsItIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	text := "{\"a\":\"<&>\u2028é\"}"
	b.reply = fileReply("application/json", text)
	w := b.do("GET", filePath, "", anonymous)
	require.Equal(t, 200, w.Code, w.Body.String())
	require.Equal(t, text, w.Body.String())
	for name, want := range map[string]string{
		"Content-Type":            "application/json",
		"Content-Length":          "16",
		"ETag":                    `"` + fileHash + `"`,
		"Cache-Control":           "public, max-age=31536000, immutable",
		"X-Content-Type-Options":  "nosniff",
		"Content-Security-Policy": "sandbox",
	} {
		require.Equal(t, want, w.Header().Get(name), name)
	}
	require.Equal(t, `{"hash":"`+fileHash+`"}`, b.asked())

	head := b.do("HEAD", filePath, "", anonymous)
	require.Equal(t, 200, head.Code)
	require.Empty(t, head.Body.String())
	for name := range w.Header() {
		if name != "X-Request-Id" {
			require.Equal(t, w.Header().Get(name), head.Header().Get(name), name)
		}
	}
	require.Equal(t, "405 GET, HEAD", method(b, "POST"))

	b.reply = fileReply("application/octet-stream", "PK\x03\x04\x00\xff")
	w = b.do("GET", filePath+"?decode=1", "", anonymous)
	require.Equal(t, "PK\x03\x04\x00\xff", w.Body.String())
	require.Equal(t, "application/octet-stream", w.Header().Get("Content-Type"))
	require.Equal(t, `{"decode":true,"hash":"`+fileHash+`"}`, b.asked())

	b.reply = fileReply("text/plain; charset=utf-8", "")
	w = b.do("GET", filePath, "", anonymous)
	require.Equal(t, "200 0", w.Result().Status[:3]+" "+w.Header().Get("Content-Length"))
}

func method(b *bundle, name string) string {
	w := b.do(name, filePath, "", anonymous)
	return w.Result().Status[:3] + " " + w.Header().Get("Allow")
}

func TestAFileThatTheCallerHas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reply = fileReply("application/json", "{}")
	for header, want := range map[string]int{
		`"` + fileHash + `"`:                     304,
		`W/"` + fileHash + `"`:                   304,
		`"x", W/"y" , "` + fileHash + `"`:        304,
		`*`:                                      304,
		`"x"`:                                    200,
		fileHash:                                 200,
		`"` + strings.ToUpper(fileHash) + `"`:    200,
		`"` + fileHash[:63] + `", "` + "x" + `"`: 200,
	} {
		w := b.do("GET", filePath, "", anonymous, func(r *http.Request) { r.Header.Set("If-None-Match", header) })
		require.Equal(t, want, w.Code, header)
		require.Equal(t, `"`+fileHash+`"`, w.Header().Get("ETag"))
		require.Equal(t, "public, max-age=31536000, immutable", w.Header().Get("Cache-Control"))
		if want == 304 {
			require.Empty(t, w.Body.String())
			require.Empty(t, w.Header().Get("Content-Type"))
		}
	}
	// What is not there, or must not be shown, is not told by its tag.
	b.err = status.Error(codes.NotFound, "the rights register forbids redistribution")
	w := b.do("GET", filePath, "", anonymous, func(r *http.Request) { r.Header.Set("If-None-Match", "*") })
	require.Equal(t, 404, w.Code)
	require.JSONEq(t, `{"error":"not found"}`, w.Body.String())
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Empty(t, w.Header().Get("ETag"))
}

// A product's standing changes until its anchor is confirmed.
func TestAProductIsCachedBriefly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reply = `{"hash":"` + fileHash + `","sealed":{"state":"not_sealed"}}`
	w := b.do("GET", "/api/v1/archive/products/"+fileHash, "", anonymous)
	require.Equal(t, 200, w.Code, w.Body.String())
	require.Equal(t, "public, max-age=60", w.Header().Get("Cache-Control"))
	b.reply = ""
	require.Empty(t, b.do("GET", "/api/v1/archive/polls?source=s&day=2026-11-30", "", anonymous).Header().Get("Cache-Control"))
	require.Equal(t, "no-store", b.do("GET", "/api/archives", "").Header().Get("Cache-Control"))
}
