package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ reply, want string }{
		"nothing set": {`{}`, `{"text":"","maybeText":null,"byteLength":0,"maybeCount":null,"at":null,"results":[],"labels":[],"ratio":0,"good":false,"body":""}`},
		"T02 all set": {
			`{"text":"é<&>\u2028","maybeText":"","byteLength":"5000000000","maybeCount":"18446744073709551615","at":"2026-11-30T17:00:00.123456789Z",
			  "results":[{"url":"u","seenAt":"2026-11-30T17:00:00Z"}],"labels":["a"],"ratio":1.5,"good":true,"body":"AAE="}`,
			`{"text":"é<&>` + "\u2028" + `","maybeText":"","byteLength":5000000000,"maybeCount":18446744073709551615,"at":"2026-11-30T17:00:00.123456Z",` +
				`"results":[{"url":"u","taskId":null,"seenAt":"2026-11-30T17:00:00Z","good":null}],"labels":["a"],"ratio":1.5,"good":true,"body":"AAE="}`,
		},
		"cut and not rounded":   {`{"at":"2026-11-30T16:59:59.999999999Z"}`, `{"text":"","maybeText":null,"byteLength":0,"maybeCount":null,"at":"2026-11-30T16:59:59.999999Z","results":[],"labels":[],"ratio":0,"good":false,"body":""}`},
		"before the epoch":      {`{"at":"1969-12-31T23:59:59.1234567Z"}`, `{"text":"","maybeText":null,"byteLength":0,"maybeCount":null,"at":"1969-12-31T23:59:59.123456Z","results":[],"labels":[],"ratio":0,"good":false,"body":""}`},
		"smallest and negative": {`{"byteLength":"-9223372036854775808"}`, `{"text":"","maybeText":null,"byteLength":-9223372036854775808,"maybeCount":null,"at":null,"results":[],"labels":[],"ratio":0,"good":false,"body":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.reply = tc.reply
			w := b.do("GET", "/api/orders", "")
			require.Equal(t, 200, w.Code)
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.Equal(t, tc.want, w.Body.String())
		})
	}
}

// The shapes of the contract, over the real ledger's messages.
func TestT05AbsentValuesAreNull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reply = `{"crawlId":"c","seeds":["http://a/"],"scope":"same-origin","state":"running","maxDepth":2,"maxPages":30,"perHostDelayMs":2000,"hostParallelism":4,"startedAt":"2026-11-30T17:00:00Z","pagesDiscovered":"1"}`
	w := b.do("GET", "/api/crawls/"+archiveID, "")
	require.JSONEq(t, `{"crawlId":"c","seeds":["http://a/"],"scope":"same-origin","state":"running","stopReason":null,"maxDepth":2,"maxPages":30,"perHostDelayMs":2000,
		"hostParallelism":4,"startedAt":"2026-11-30T17:00:00Z","finishedAt":null,"pagesDiscovered":1,"pagesCaptured":0,"error":null,"lastJob":null,"failures":[]}`, w.Body.String())

	b.reply = `{"archives":[{"id":"a","taskId":"t","sourceUrl":"u","capturedAt":"2026-11-30T17:00:00Z","objectKey":"k"}]}`
	w = b.do("GET", "/api/archives", "")
	require.JSONEq(t, `{"archives":[{"id":"a","taskId":"t","sourceUrl":"u","labels":[],"waczComplete":null,"signed":null,"capturedAt":"2026-11-30T17:00:00Z","objectKey":"k","fixity":null,"distanceSeconds":null}],"nextPageToken":null}`, w.Body.String())
}

func TestT11RepliesAreObjects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.do("POST", "/api/crawls/"+archiveID+"/failed", `{}`)
	require.Equal(t, 200, w.Code)
	require.JSONEq(t, `{"closed":false}`, w.Body.String())
	w = b.do("POST", "/api/crawls/"+archiveID+"/pages", `{"depth":0,"results":[]}`)
	require.JSONEq(t, `{"next":[],"stopReason":null}`, w.Body.String())
}
