package gateway

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

const archiveID = "0b0c9a6e-5a3c-4a1f-9a51-2f7d1d4a8c11"

func TestT03WrongPathWrongMethod(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tc := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/api/archives/" + archiveID + "/url", 405, "POST"},
		{"POST", "/api/archive", 404, ""},
		{"POST", "/api/archives", 405, "GET, HEAD"},
		{"DELETE", "/api/me", 405, "GET, HEAD"},
		{"PUT", "/api/orders/1", 405, "DELETE, GET, HEAD"},
		{"OPTIONS", "/api/orders", 405, "GET, HEAD, POST"},
		{"BREW", "/api/orders", 405, "GET, HEAD, POST"},
		{"GET", "/", 404, ""},
		{"GET", "/api", 404, ""},
		{"GET", "/api/orders/", 404, ""},
		{"GET", "/api/orders/1/", 404, ""},
		{"GET", "//api/orders", 404, ""},
		{"GET", "/api//orders", 404, ""},
		{"GET", "/api/./orders", 404, ""},
		{"GET", "/api/x/../orders", 404, ""},
		{"GET", "/api/orders//lines", 404, ""},
		{"GET", "/shapes.Orders/Internal", 404, ""},
		{"POST", "/muniment.ledger.v1.RegistryService/LookupArchive", 404, ""},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			t.Parallel()
			w := b.do(tc.method, tc.path, "")
			require.Equal(t, tc.status, w.Code, w.Body.String())
			require.Equal(t, tc.allow, w.Header().Get("Allow"))
			require.Empty(t, w.Header().Get("Location"), "nothing is redirected")
			if tc.status == 404 {
				require.JSONEq(t, `{"error":"not found"}`, w.Body.String())
			} else {
				require.Equal(t, "method not allowed", errorOf(t, w))
			}
			require.NotEmpty(t, w.Header().Get("X-Request-ID"))
		})
	}
}

func TestT04PathValuesAreDecodedOnce(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/orders/urn:oid:1.wacz":        "urn:oid:1.wacz",
		"/api/orders/urn%3Aoid%3A1.wacz":    "urn:oid:1.wacz",
		"/api/orders/100%2525":              "100%25",
		"/api/orders/a+b%20c":               "a+b c",
		"/api/orders/x%2Fy.wacz":            "x/y.wacz",
		"/api/orders/%2e%2e":                "..",
		"/api/orders/caf%C3%A9":             "café",
		"/api/orders/1?pageSize=3&orderId=": "1",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := b.do("GET", path, "")
			require.Equal(t, 200, w.Code, w.Body.String())
			require.Equal(t, want, b.request.ProtoReflect().Get(b.request.ProtoReflect().Descriptor().Fields().ByName("order_id")).String())
		})
	}
}

func TestPathValuesThatAreNoText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{"/api/orders/%ff", "/api/orders/a%00b"} {
		w := b.do("GET", path, "")
		require.Equal(t, 400, w.Code)
		require.Contains(t, errorOf(t, w), "orderId")
	}
	require.Zero(t, b.callCount())
}

func TestIdentityComesBeforeShape(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tc := range [][3]string{
		{"POST", "/api/orders", "not JSON"},
		{"GET", "/api/orders?pageSize=x", ""},
		{"GET", "/api/archives", ""},
		{"GET", "/api/archives/nonsense", ""},
	} {
		w := b.do(tc[0], tc[1], tc[2], anonymous)
		require.Equal(t, 401, w.Code)
		require.JSONEq(t, `{"error":"unauthenticated"}`, w.Body.String())
	}
	require.Zero(t, b.callCount())
	require.Positive(t, b.logs.FilterMessage("request").Len())
	require.Contains(t, fmt.Sprint(b.logs.All()[0].ContextMap()), "the log's reason")
}

func TestArchiveReadsArePublic(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, 200, b.do("GET", "/api/v1/archive/orders/1", "", anonymous).Code)
	require.Equal(t, 401, b.do("GET", "/api/orders/1", "", anonymous).Code)
}

func TestCredentialsTravelOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.do("GET", "/api/orders/1", "", func(r *http.Request) {
		r.Header.Set("X-Muniment-Subject", "ålice")
		r.Header.Set("X-Muniment-Organizations", "acme,beta")
		r.Header.Set("X-Other", "stays here")
	})
	require.Equal(t, 200, w.Code)
	require.Equal(t, []string{"Bearer token"}, b.sent.Get("authorization"))
	require.Equal(t, []string{"ålice"}, b.sent.Get("x-muniment-subject-bin"))
	require.Equal(t, []string{"acme,beta"}, b.sent.Get("x-muniment-organizations-bin"))
	require.Equal(t, 3, b.sent.Len())
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.do("GET", "/api/orders/1", "", func(r *http.Request) { r.Header.Set("X-Request-ID", "from-outside.1") })
	require.Equal(t, "from-outside.1", w.Header().Get("X-Request-ID"))
	require.Equal(t, "from-outside.1", b.logs.FilterMessage("request").All()[0].ContextMap()["request_id"])
	w = b.do("GET", "/nowhere", "", func(r *http.Request) { r.Header.Set("X-Request-ID", "forged\" line") })
	require.NotEmpty(t, w.Header().Get("X-Request-ID"))
	require.NotContains(t, w.Header().Get("X-Request-ID"), "forged")
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.do("HEAD", "/api/orders/1", "")
	require.Equal(t, 200, w.Code)
	require.Zero(t, w.Body.Len())
	require.NotEmpty(t, w.Header().Get("Content-Length"))
}

func TestPlainRoutes(t *testing.T) {
	t.Parallel()
	b := setup(t, Plain{Method: http.MethodPut, Path: "/api/sink/{crawlId}/{filename}", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s", r.PathValue("crawlId"), r.PathValue("filename"))
	})})
	w := b.do("PUT", "/api/sink/7/urn%3Aoid%3A1%2525.wacz", "bytes", anonymous)
	require.Equal(t, "7|urn:oid:1%25.wacz", w.Body.String())
	w = b.do("GET", "/api/sink/7/x", "")
	require.Equal(t, 405, w.Code)
	require.Equal(t, "PUT", w.Header().Get("Allow"))
	require.Equal(t, 404, b.do("PUT", "/api/sink/7/", "").Code)
}

func TestPanicIsAnInternalError(t *testing.T) {
	t.Parallel()
	b := setup(t, Plain{Method: http.MethodGet, Path: "/boom", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret") })})
	w := b.do("GET", "/boom", "")
	require.Equal(t, 500, w.Code)
	require.JSONEq(t, `{"error":"internal error"}`, w.Body.String())
}

// A contract that the gateway could not speak is found at start.
func TestRefusedContracts(t *testing.T) {
	t.Parallel()
	field := func(f *descriptorpb.FileDescriptorProto, message, name string) *descriptorpb.FieldDescriptorProto {
		for _, m := range f.GetMessageType() {
			for _, field := range m.GetField() {
				if m.GetName() == message && field.GetName() == name {
					return field
				}
			}
		}
		return nil
	}
	for name, change := range map[string]func(*descriptorpb.FileDescriptorProto){
		"a stream": func(f *descriptorpb.FileDescriptorProto) {
			f.GetService()[0].GetMethod()[0].ServerStreaming = new(true)
		},
		"bytes in a request": func(f *descriptorpb.FileDescriptorProto) {
			field(f, "Order", "labels").Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		},
		"a float in a reply": func(f *descriptorpb.FileDescriptorProto) {
			field(f, "Reply", "ratio").Type = descriptorpb.FieldDescriptorProto_TYPE_FLOAT.Enum()
		},
		"a message that contains itself": func(f *descriptorpb.FileDescriptorProto) {
			field(f, "Reply", "results").TypeName = new(".shapes.Reply")
		},
		"the same route twice": func(f *descriptorpb.FileDescriptorProto) {
			f.GetService()[0].GetMethod()[1].Options = f.GetService()[0].GetMethod()[0].GetOptions()
		},
		"a path field that is not there": func(f *descriptorpb.FileDescriptorProto) {
			field(f, "Order", "order_id").Name = new("other_id")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New([]Backend{{Name: "x", Services: []protoreflect.ServiceDescriptor{shapes(t, change)}}}, nil, anyBearer{}, Settings{}, prometheus.NewRegistry(), zap.NewNop())
			require.Error(t, err)
		})
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "api", "/api/", "/api//x", "/api/{a=**}", "/api/{a.b}", "/api/x:verb", "/api/{a}{b}", "/api/{a}/{a}", "/api/*"} {
		_, _, err := parseTemplate(bad)
		require.Error(t, err, bad)
	}
	pattern, params, err := parseTemplate("/api/{crawl_id}/x/{name}")
	require.NoError(t, err)
	require.Equal(t, "/api/{p0}/x/{p1}", pattern)
	require.Equal(t, []string{"crawl_id", "name"}, params)
}

func TestMetricsCarryTheTemplate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("GET", "/api/orders/1", "")
	b.do("GET", "/made/up/"+archiveID, "")
	b.do("MADEUP", "/api/orders/1", "")
	registry := prometheus.NewRegistry()
	registry.MustRegister(b.gateway.seconds)
	families, err := registry.Gather()
	require.NoError(t, err)
	text := fmt.Sprint(families)
	require.Contains(t, text, "/api/orders/{order_id}")
	require.NotContains(t, text, "made")
	require.NotContains(t, text, "MADEUP")
}
