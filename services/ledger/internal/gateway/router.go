package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/rpcerr"
)

// router finds the handler of a path and a method. It stands on http.ServeMux,
// which matches segment by segment before decoding each of them once, and takes
// from it what the contract does not have: redirects to a cleaned path and
// errors in plain text.
type router struct {
	mux       *http.ServeMux
	resources map[string]*resource // by pattern, in the order of their adding
}

// resource is one path with its methods. The wildcards are named by position in
// the mux, since two methods of one path may spell them differently.
type resource struct {
	template string
	methods  map[string]http.Handler
	allow    string
}

func newRouter() *router {
	return &router{mux: http.NewServeMux(), resources: map[string]*resource{}}
}

// add registers a handler under a template such as /api/crawls/{crawl_id} and
// returns its parameters' names in order.
func (r *router) add(method, template string, h http.Handler) ([]string, error) {
	pattern, params, err := parseTemplate(template)
	if err != nil {
		return nil, err
	}
	res := r.resources[pattern]
	if res == nil {
		res = &resource{template: template, methods: map[string]http.Handler{}}
		r.resources[pattern] = res
	}
	if res.methods[method] != nil {
		return nil, fmt.Errorf("%s %s stands there twice", method, template)
	}
	res.methods[method] = named(params, h)
	return params, nil
}

// finish hands the paths to the mux.
func (r *router) finish() {
	for pattern, res := range r.resources {
		if get := res.methods[http.MethodGet]; get != nil {
			res.methods[http.MethodHead] = get
		}
		var allow []string
		for method := range res.methods {
			allow = append(allow, method)
		}
		slices.Sort(allow)
		res.allow = strings.Join(allow, ", ")
		r.mux.Handle(pattern, res)
	}
	r.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) { WriteError(w, req, rpcerr.NotFound(nil)) })
}

func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !clean(req.URL.EscapedPath()) {
		// The mux would redirect to a path that nobody asked for.
		WriteError(w, req, rpcerr.NotFound(nil))
		return
	}
	r.mux.ServeHTTP(w, req)
}

func (res *resource) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	setRoute(w, res.template)
	h := res.methods[req.Method]
	if h == nil {
		w.Header().Set("Allow", res.allow)
		WriteError(w, req, errMethod)
		return
	}
	h.ServeHTTP(w, req)
}

// errMethod never crosses the wire; it has a status of its own in HTTP.
var errMethod = status.Error(codes.Unimplemented, "method not allowed")

// named gives the path values the names that the handler knows them by.
func named(params []string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for i, name := range params {
			req.SetPathValue(name, req.PathValue(position(i)))
		}
		h.ServeHTTP(w, req)
	})
}

func position(i int) string { return fmt.Sprintf("p%d", i) }

// parseTemplate turns /a/{x}/b into the pattern /a/{p0}/b and the names [x].
func parseTemplate(template string) (pattern string, params []string, err error) {
	if !strings.HasPrefix(template, "/") || !clean(template) || strings.HasSuffix(template, "/") {
		return "", nil, fmt.Errorf("the path %q is not one that can be served", template)
	}
	segments := strings.Split(template, "/")
	for i, segment := range segments {
		if !strings.ContainsAny(segment, "{}:*=") {
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(segment, "{"), "}")
		if len(name) != len(segment)-2 || strings.ContainsAny(name, "{}:*=.") || slices.Contains(params, name) {
			return "", nil, fmt.Errorf("the path %q has the segment %q; only {name} is spoken here", template, segment)
		}
		segments[i] = "{" + position(len(params)) + "}"
		params = append(params, name)
	}
	return strings.Join(segments, "/"), params, nil
}

// clean says whether an escaped path has no empty and no dot segment; a slash at
// the end counts as a path of its own.
func clean(escaped string) bool {
	if !strings.HasPrefix(escaped, "/") {
		return false
	}
	for segment := range strings.SplitSeq(strings.TrimSuffix(escaped[1:], "/"), "/") {
		if segment == "" && escaped != "/" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}
