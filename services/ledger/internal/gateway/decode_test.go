package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		// want is what arrives, or for a 400 what its error begins with.
		status int
		want   string
	}{
		"whole": {
			`{"depth":1,"results":[{"url":"http://a/","taskId":"x","seenAt":"2026-11-30T17:00:00.1234567+02:00","good":false}],"maxPages":5000000000,"count":7,"total":18446744073709551615,"labels":["a","b"],"nothing":{}}`,
			200, `{"count":7,"depth":1,"labels":["a","b"],"maxPages":"5000000000","nothing":{},"orderId":"9","results":[{"good":false,"seenAt":"2026-11-30T15:00:00.123456700Z","taskId":"x","url":"http://a/"}],"total":"18446744073709551615"}`,
		},
		"empty object":     {`{}`, 200, `{"orderId":"9"}`},
		"space around":     {" \n{\t} ", 200, `{"orderId":"9"}`},
		"null is absent":   {`{"depth":null,"results":null,"maxPages":null,"nothing":null}`, 200, `{"orderId":"9"}`},
		"T02 digit string": {`{"depth":"10","maxPages":"5000000000","count":"007"}`, 200, `{"count":7,"depth":10,"maxPages":"5000000000","orderId":"9"}`},
		"integer as 3.0":   {`{"depth":3.0}`, 200, `{"depth":3,"orderId":"9"}`},
		"negative":         {`{"depth":-1}`, 200, `{"depth":-1,"orderId":"9"}`},

		"no body":          {``, 400, "body: must be exactly one JSON object"},
		"null":             {`null`, 400, "body: must be exactly one JSON object"},
		"list":             {`[{}]`, 400, "body: must be exactly one JSON object"},
		"text":             {`"{}"`, 400, "body: must be exactly one JSON object"},
		"number":           {`7`, 400, "body: must be exactly one JSON object"},
		"trailing object":  {`{}{}`, 400, "body: must be exactly one JSON object"},
		"trailing garbage": {`{} x`, 400, "body: must be exactly one JSON object"},
		"cut off":          {`{"depth":1`, 400, "body: is not valid JSON in UTF-8"},
		"cut off in list":  {`{"labels":["a",`, 400, "body: is not valid JSON in UTF-8"},
		"cut off in text":  {`{"labels":["a`, 400, "body: is not valid JSON in UTF-8"},
		"comma at the end": {`{"depth":1,}`, 400, "body: is not valid JSON in UTF-8"},
		"comment":          {`{/* */}`, 400, "body: is not valid JSON in UTF-8"},
		"byte order mark":  {"\xef\xbb\xbf{}", 400, "body: must be exactly one JSON object"},
		"leading zero":     {`{"depth":01}`, 400, "body: is not valid JSON in UTF-8"},

		"duplicate key":             {`{"depth":1,"depth":1}`, 400, "depth: stands there twice"},
		"duplicate key below":       {`{"results":[{},{"url":"a","url":"b"}]}`, 400, "results[1].url: stands there twice"},
		"duplicate key by escape":   {`{"depth":1,"d\u0065pth":1}`, 400, "depth: stands there twice"},
		"invalid UTF-8 in a value":  {"{\"labels\":[\"\xff\"]}", 400, "body: is not valid JSON in UTF-8"},
		"invalid UTF-8 in a key":    {"{\"\xff\":1}", 400, "body: is not valid JSON in UTF-8"},
		"lone surrogate":            {`{"labels":["\ud800"]}`, 400, "body: is not valid JSON in UTF-8"},
		"T01 unknown key":           {`{"maxpages":5}`, 400, "maxpages: is not a known key"},
		"unknown key below":         {`{"results":[{},{"URL":"a"}]}`, 400, "results[1].URL: is not a known key"},
		"proto's own spelling":      {`{"max_pages":5}`, 400, "max_pages: is not a known key"},
		"key of the path":           {`{"orderId":"7"}`, 400, "orderId: is not a known key"},
		"unknown key null":          {`{"x":null}`, 400, "x: is not a known key"},
		"T02 fraction":              {`{"depth":1.5}`, 400, "depth: must be an integer"},
		"T02 exponent":              {`{"depth":1e2}`, 400, "depth: must be an integer"},
		"T02 overflow":              {`{"maxPages":9223372036854775808}`, 400, "maxPages: is out of range"},
		"T02 overflow of 32 bits":   {`{"depth":2147483648}`, 400, "depth: is out of range"},
		"T02 fraction as text":      {`{"depth":"1.5"}`, 400, "depth: must be an integer"},
		"T02 zeros as text":         {`{"depth":"1.0"}`, 400, "depth: must be an integer"},
		"T02 sign as text":          {`{"depth":"+1"}`, 400, "depth: must be an integer"},
		"T02 space as text":         {`{"depth":" 1"}`, 400, "depth: must be an integer"},
		"T02 underscore as text":    {`{"depth":"1_0"}`, 400, "depth: must be an integer"},
		"T02 hex as text":           {`{"depth":"0x1"}`, 400, "depth: must be an integer"},
		"negative unsigned":         {`{"count":-1}`, 400, "count: must be an integer"},
		"integer empty":             {`{"depth":""}`, 400, "depth: must be an integer"},
		"integer true":              {`{"depth":true}`, 400, "depth: must be an integer"},
		"text a number":             {`{"results":[{"url":1}]}`, 400, "results[0].url: must be a text"},
		"text a list":               {`{"labels":[["a"]]}`, 400, "labels[0]: must be a text"},
		"list a text":               {`{"labels":"a"}`, 400, "labels: must be a list"},
		"list an object":            {`{"results":{"0":{}}}`, 400, "results: must be a list"},
		"object a text":             {`{"results":["a"]}`, 400, "results[0]: must be an object"},
		"object a list":             {`{"nothing":[]}`, 400, "nothing: must be an object"},
		"null in a list":            {`{"labels":["a",null]}`, 400, "labels[1]: must be a text"},
		"null in a list of objects": {`{"results":[{},null]}`, 400, "results[1]: must be an object"},
		"bool a text":               {`{"results":[{"good":"true"}]}`, 400, "results[0].good: must be true or false"},
		"bool a number":             {`{"results":[{"good":1}]}`, 400, "results[0].good: must be true or false"},
		"T05 empty optional text":   {`{"results":[{"taskId":""}]}`, 400, "results[0].taskId: must not be empty"},
		"T05 empty required text":   {`{"results":[{"url":""}]}`, 400, "results[0].url: must not be empty"},
		"empty text in a list":      {`{"labels":[""]}`, 400, "labels[0]: must not be empty"},
		"NUL":                       {`{"labels":["a\u0000b"]}`, 400, "labels[0]: must not contain NUL"},
		"timestamp without zone":    {`{"results":[{"seenAt":"2026-11-30T17:00:00"}]}`, 400, "results[0].seenAt: must be a timestamp"},
		"timestamp with a comma":    {`{"results":[{"seenAt":"2026-11-30T17:00:00,5Z"}]}`, 400, "results[0].seenAt: must be a timestamp"},
		"timestamp a number":        {`{"results":[{"seenAt":1764522000}]}`, 400, "results[0].seenAt: must be a text"},
		"timestamp before year 1":   {`{"results":[{"seenAt":"0001-01-01T00:00:00+01:00"}]}`, 400, "results[0].seenAt: must be a timestamp"},
		"very long key":             {`{"` + strings.Repeat("é", 5000) + `":1}`, 400, strings.Repeat("é", 32) + "…: is not a known key"},
		"deep nesting":              {`{"labels":` + strings.Repeat("[", 100000), 400, "labels[0]: must be a text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := b.do("POST", "/api/orders/9/lines", tc.body)
			require.Equal(t, tc.status, w.Code, w.Body.String())
			if tc.status == 200 {
				require.Equal(t, tc.want, b.asked())
				return
			}
			require.True(t, strings.HasPrefix(errorOf(t, w), tc.want), "%s", w.Body.String())
			require.Zero(t, b.callCount(), "nothing of a refused request gets through")
		})
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fill := func(n int) string { return "{}" + strings.Repeat(" ", n-len("{}")) }
	require.Equal(t, 200, b.do("POST", "/api/orders", fill(maxBodyBytes)).Code)
	w := b.do("POST", "/api/orders", fill(maxBodyBytes+1))
	require.Equal(t, 413, w.Code)
	require.Contains(t, errorOf(t, w), "33554432")
	w = b.do("POST", "/api/orders", fill(maxBodyBytes+1), func(r *http.Request) { r.ContentLength = -1 })
	require.Equal(t, 413, w.Code, "a length that was not stated is counted")
	errorOf(t, w)
}

// Where the contract knows no key for a body, none need be sent; what is sent is
// still read strictly.
func TestRoutesWithoutBodyFields(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for body, status := range map[string]int{"": 200, "{}": 200, "null": 400, `{"x":1}`: 400} {
		require.Equal(t, status, b.do("POST", "/api/sign", body).Code, body)
	}
	require.Equal(t, 200, b.do("POST", "/api/archives/"+archiveID+"/url", "").Code)
}

func TestQueries(t *testing.T) {
	t.Parallel()
	for query, tc := range map[string]struct {
		status int
		want   string
	}{
		"":                                   {200, `{}`},
		"unknown=1&pagesize=x":               {200, `{}`},
		"pageSize=7&label=a":                 {200, `{"label":["a"],"pageSize":7}`},
		"label=a&label=b":                    {200, `{"label":["a","b"]}`},
		"open=true&orderId=5":                {200, `{"open":true,"orderId":"5"}`},
		"before=2026-11-30T17:00:00Z":        {200, `{"before":"2026-11-30T17:00:00Z"}`},
		"before=2026-11-30T17:00:00%2B01:00": {200, `{"before":"2026-11-30T16:00:00Z"}`},
		"before=2026-11-30T17:00:00+01:00":   {200, `{"before":"2026-11-30T16:00:00Z"}`},
		"before=2026-11-30T17:00:00.123456Z": {200, `{"before":"2026-11-30T17:00:00.123456Z"}`},
		"before=yesterday":                   {400, "before: must be a timestamp"},
		"before=":                            {400, "before: must be a timestamp"},
		"pageSize=":                          {400, "pageSize: must be an integer"},
		"pageSize=1.5":                       {400, "pageSize: must be an integer"},
		"pageSize=99999999999":               {400, "pageSize: is out of range"},
		"pageSize=1&pageSize=2":              {400, "pageSize: stands there twice"},
		"label=":                             {400, "label: must not be empty"},
		"label=%ff":                          {400, "label: must be valid UTF-8"},
		"open=1":                             {200, `{"open":true}`},
		"open=0":                             {200, `{"open":false}`},
		"open=yes":                           {400, "open: must be true or false"},
		"open=":                              {400, "open: must be true or false"},
		"pageSize=%zz":                       {400, "query: is not well-formed"},
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := b.do("GET", "/api/orders?"+query, "")
			require.Equal(t, tc.status, w.Code, w.Body.String())
			if tc.status == 200 {
				require.Equal(t, tc.want, b.asked())
				return
			}
			require.True(t, strings.HasPrefix(errorOf(t, w), tc.want), "%s", w.Body.String())
		})
	}
}
