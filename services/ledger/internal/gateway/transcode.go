package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/muniment/muniment/pkg/identity"
	"github.com/muniment/muniment/pkg/rpcerr"
)

const (
	// maxBodyBytes bounds a JSON body; bodyTimeout bounds its arrival.
	maxBodyBytes = 32 << 20
	bodyTimeout  = 2 * time.Minute
	// publicPrefix is open to everybody, in every identity mode.
	publicPrefix = "/api/v1/archive/"
)

// transcoder serves one annotated method.
type transcoder struct {
	gateway    *Gateway
	backend    Backend
	httpMethod string
	path       string
	fullMethod string
	hasBody    bool
	input      protoreflect.MessageType
	output     protoreflect.MessageType
	// params are the fields that the path's segments fill, in order; a body may
	// not set them a second time.
	params []protoreflect.FieldDescriptor
}

// newTranscoder returns nil for a method without an annotation: it is not for
// the outside.
func newTranscoder(g *Gateway, backend Backend, method protoreflect.MethodDescriptor) (*transcoder, error) {
	rule, ok := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return nil, nil //nolint:nilnil // no route is a good answer
	}
	if method.IsStreamingClient() || method.IsStreamingServer() {
		return nil, errors.New("streams cannot be transcoded")
	}
	if len(rule.GetAdditionalBindings()) > 0 || rule.GetResponseBody() != "" || rule.GetBody() != "" && rule.GetBody() != "*" {
		return nil, errors.New(`only one binding, whole replies and body "*" are spoken here`)
	}
	t := &transcoder{
		gateway:    g,
		backend:    backend,
		fullMethod: fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name()),
		hasBody:    rule.GetBody() == "*",
		input:      messageType(method.Input()),
		output:     messageType(method.Output()),
	}
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		t.httpMethod, t.path = http.MethodGet, p.Get
	case *annotations.HttpRule_Post:
		t.httpMethod, t.path = http.MethodPost, p.Post
	case *annotations.HttpRule_Put:
		t.httpMethod, t.path = http.MethodPut, p.Put
	case *annotations.HttpRule_Patch:
		t.httpMethod, t.path = http.MethodPatch, p.Patch
	case *annotations.HttpRule_Delete:
		t.httpMethod, t.path = http.MethodDelete, p.Delete
	default:
		return nil, errors.New("the annotation names no method of HTTP")
	}
	if t.hasBody && t.httpMethod == http.MethodGet {
		return nil, errors.New("GET has no body")
	}
	return t, errors.Join(decodable(method.Input(), nil), encodable(method.Output(), nil))
}

func messageType(d protoreflect.MessageDescriptor) protoreflect.MessageType {
	if known, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName()); err == nil {
		return known
	}
	return dynamicpb.NewMessageType(d)
}

// bind finds the fields that the path fills.
func (t *transcoder) bind(params []string) error {
	for _, name := range params {
		field := t.input.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil || field.IsList() || field.Message() != nil {
			return fmt.Errorf("the path's {%s} is not a plain field of the request", name)
		}
		t.params = append(t.params, field)
	}
	if !t.hasBody {
		return queryable(t.input.Descriptor())
	}
	return nil
}

// ServeHTTP decides in the contract's order: identity, shape, and the rest
// behind the call.
func (t *transcoder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	credentials := identity.FromHeader(r.Header)
	if !strings.HasPrefix(t.path, publicPrefix) {
		if _, err := t.gateway.verifier.Verify(r.Context(), credentials); err != nil {
			WriteError(w, r, rpcerr.Unauthenticated(err))
			return
		}
	}
	request, err := t.request(w, r)
	if err != nil {
		WriteError(w, r, err)
		return
	}
	reply, err := t.call(credentials.Outgoing(r.Context()), request)
	if err != nil {
		WriteError(w, r, err)
		return
	}
	if caching, ok := t.caching(); ok {
		w.Header().Set("Cache-Control", caching)
	}
	if isFile(t.output.Descriptor()) {
		serveFile(w, r, reply.ProtoReflect())
		return
	}
	t.serveJSON(w, r, reply.ProtoReflect())
}

func (t *transcoder) serveJSON(w http.ResponseWriter, r *http.Request, reply protoreflect.Message) {
	var body bytes.Buffer
	if err := encode(&body, reply); err != nil {
		WriteError(w, r, rpcerr.Internal(fmt.Errorf("encoding the reply: %w", err)))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	if status, ok := statuses[t.fullMethod]; ok {
		w.WriteHeader(status)
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes())
	}
}

// statuses are those of replies that the contract does not answer with 200.
var statuses = map[string]int{
	"/muniment.ledger.v1.CrawlService/StartCrawl": http.StatusAccepted,
}

// cachings are those of public replies that may be kept: a product's standing
// changes until its anchor is confirmed, its body never.
var cachings = map[string]string{
	"/muniment.feedarchiver.v1.AsIssuedService/GetProduct":     "public, max-age=60",
	"/muniment.feedarchiver.v1.AsIssuedService/GetProductBody": "public, max-age=31536000, immutable",
}

// caching says who may keep the reply, and for how long. Of the other public
// replies nothing is said.
func (t *transcoder) caching() (string, bool) {
	if !strings.HasPrefix(t.path, publicPrefix) {
		return "no-store", true
	}
	c, ok := cachings[t.fullMethod]
	return c, ok
}

// request builds the message out of path, query and body.
func (t *transcoder) request(w http.ResponseWriter, r *http.Request) (proto.Message, error) {
	msg := t.input.New()
	for _, field := range t.params {
		value, err := parseText(field, r.PathValue(string(field.Name())))
		if err != nil {
			return nil, rpcerr.Invalid(field.JSONName(), err.Error())
		}
		msg.Set(field, value)
	}
	body, err := t.readBody(w, r)
	if err != nil {
		return nil, err
	}
	if !t.hasBody {
		return msg.Interface(), decodeQuery(r.URL.RawQuery, msg, t.params)
	}
	if len(body) == 0 && t.input.Descriptor().Fields().Len() == len(t.params) {
		// Nothing could stand in this body, so none is asked for.
		return msg.Interface(), nil
	}
	return msg.Interface(), decodeBody(body, msg, t.params)
}

func (t *transcoder) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	control := http.NewResponseController(w)
	// Recorders in tests have no deadlines; connections do.
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	if !t.hasBody {
		return nil, nil
	}
	if r.ContentLength > maxBodyBytes {
		return nil, errBodyTooLarge
	}
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(min(r.ContentLength, 1<<20)))
	}
	_, err := io.Copy(&body, http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, errBodyTooLarge
	}
	if err != nil {
		return nil, rpcerr.Invalid("body", "could not be read to its end")
	}
	// The work that follows may take longer than a body may.
	_ = control.SetReadDeadline(time.Time{})
	return body.Bytes(), nil
}

// call does the work, in the service.
func (t *transcoder) call(ctx context.Context, request proto.Message) (proto.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, t.gateway.settings.RequestTimeout)
	defer cancel()
	reply := t.output.New().Interface()
	if err := t.backend.Conn.Invoke(ctx, t.fullMethod, request, reply); err != nil {
		return nil, t.ours(err)
	}
	return reply, nil
}

// ours replaces what gRPC itself says by words of ours: its messages name
// addresses and causes. A status of a service is one that carries details, or
// has a code that gRPC does not make up.
func (t *transcoder) ours(err error) error {
	st := status.Convert(err)
	switch st.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		if slices.ContainsFunc(st.Details(), isRetryInfo) {
			return err
		}
		return rpcerr.Unavailable(t.backend.Name, time.Second, err)
	case codes.ResourceExhausted:
		if len(st.Details()) > 0 {
			return err
		}
		return status.Error(codes.ResourceExhausted, "the request is over its limit")
	case codes.PermissionDenied:
		return rpcerr.Internal(err)
	}
	return err
}
