package gateway

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// isFile says whether a reply is served as it is and not as JSON: one of the
// form {string hash, string content_type, bytes body}, where the hash is that of
// what is kept under this address for ever.
func isFile(d protoreflect.MessageDescriptor) bool {
	fields := d.Fields()
	hash, contentType, body := fields.ByName("hash"), fields.ByName("content_type"), fields.ByName("body")
	return fields.Len() == 3 && hash != nil && hash.Kind() == protoreflect.StringKind &&
		contentType != nil && contentType.Kind() == protoreflect.StringKind &&
		body != nil && body.Kind() == protoreflect.BytesKind
}

// serveFile sends the body, or 304 to whoever has it already.
func serveFile(w http.ResponseWriter, r *http.Request, reply protoreflect.Message) {
	fields := reply.Descriptor().Fields()
	body := reply.Get(fields.ByName("body")).Bytes()
	tag := strconv.Quote(reply.Get(fields.ByName("hash")).String())
	h := w.Header()
	h.Set("ETag", tag)
	if hasTag(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", reply.Get(fields.ByName("content_type")).String())
	h.Set("Content-Length", strconv.Itoa(len(body)))
	// What others published must not run in a browser under our name.
	h.Set("Content-Security-Policy", "sandbox")
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// hasTag looks for a tag in the lists of If-None-Match, which compares weakly.
// Tags of ours hold no comma.
func hasTag(lists []string, tag string) bool {
	for _, list := range lists {
		for candidate := range strings.SplitSeq(list, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == tag {
				return true
			}
		}
	}
	return false
}
