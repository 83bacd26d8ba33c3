package browserhive

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nlnwa/gowarc/v2"
)

// warcName is the WARC's name inside the WACZ's archive folder.
const warcName = "data.warc.gz"

// indexed is where the record of a response stands in the WARC file.
type indexed struct {
	exchange       *exchange
	digest         string
	offset, length int64
}

// writeWARC writes the exchanges as WARC 1.1, each record a gzip member of its
// own, so that a reader can seek to it, and returns where the responses are.
func writeWARC(exchanges []*exchange, description string, created time.Time) ([]byte, []indexed, error) {
	w := &warcWriter{marshaler: gowarc.NewMarshaler()}
	info := "software: " + userAgent + "\r\n" +
		"format: WARC File Format 1.1\r\n" +
		"conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n" +
		"description: " + description + "\r\n"
	header := map[string]string{gowarc.WarcFilename: warcName, gowarc.ContentType: gowarc.ApplicationWarcFields}
	if _, _, err := w.record(gowarc.Warcinfo, newRecordID(), created, header, []byte(info)); err != nil {
		return nil, nil, err
	}
	index := make([]indexed, 0, len(exchanges))
	for _, e := range exchanges {
		at, err := w.exchange(e)
		if err != nil {
			return nil, nil, fmt.Errorf("recording %s: %w", e.target, err)
		}
		index = append(index, at)
	}
	return w.file.Bytes(), index, nil
}

type warcWriter struct {
	file      bytes.Buffer
	marshaler gowarc.Marshaler
}

// exchange writes the response and then the request, each naming the other.
func (w *warcWriter) exchange(e *exchange) (indexed, error) {
	responseID, requestID := newRecordID(), newRecordID()
	digest := sha256Base32(e.body)
	// A fragment never goes over the wire.
	target := *e.target
	target.Fragment, target.RawFragment = "", ""

	header := map[string]string{
		gowarc.WarcTargetURI:     target.String(),
		gowarc.ContentType:       "application/http;msgtype=response",
		gowarc.WarcConcurrentTo:  requestID,
		gowarc.WarcPayloadDigest: digest,
	}
	if e.remoteIP != "" {
		header[gowarc.WarcIPAddress] = e.remoteIP
	}
	switch {
	case e.truncated:
		header[gowarc.WarcTruncated] = "length"
	case e.bodyless:
		header[gowarc.WarcTruncated] = "disconnect"
	}
	offset, length, err := w.record(gowarc.Response, responseID, e.started, header, responseBlock(e))
	if err != nil {
		return indexed{}, fmt.Errorf("writing the response record: %w", err)
	}
	header = map[string]string{
		gowarc.WarcTargetURI:    target.String(),
		gowarc.ContentType:      "application/http;msgtype=request",
		gowarc.WarcConcurrentTo: responseID,
	}
	if _, _, err := w.record(gowarc.Request, requestID, e.started, header, requestBlock(e)); err != nil {
		return indexed{}, fmt.Errorf("writing the request record: %w", err)
	}
	return indexed{exchange: e, digest: digest, offset: offset, length: length}, nil
}

// record writes one record as one gzip member.
func (w *warcWriter) record(kind gowarc.RecordType, id string, date time.Time, header map[string]string, block []byte) (offset, length int64, err error) {
	builder := newBuilder(kind)
	defer builder.Close()
	builder.AddWarcHeader(gowarc.WarcRecordID, id)
	builder.AddWarcHeader(gowarc.WarcDate, date.UTC().Format("2006-01-02T15:04:05.000Z"))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		builder.AddWarcHeader(name, header[name])
	}
	if _, err := builder.Write(block); err != nil {
		return 0, 0, fmt.Errorf("buffering the block: %w", err)
	}
	record, _, err := builder.Build()
	if err != nil {
		return 0, 0, fmt.Errorf("building the record: %w", err)
	}
	defer record.Close()
	start := int64(w.file.Len())
	member := gzip.NewWriter(&w.file)
	if _, _, err := w.marshaler.Marshal(member, record, 0); err != nil {
		return 0, 0, fmt.Errorf("marshalling the record: %w", err)
	}
	if err := member.Close(); err != nil {
		return 0, 0, fmt.Errorf("closing the gzip member: %w", err)
	}
	return start, int64(w.file.Len()) - start, nil
}

// builders guards the making of record builders: gowarc writes a global of the
// uuid package each time, unguarded.
var builders sync.Mutex

func newBuilder(kind gowarc.RecordType) gowarc.WarcRecordBuilder {
	builders.Lock()
	defer builders.Unlock()
	return gowarc.NewRecordBuilder(kind, gowarc.WithStrictValidation(), gowarc.WithDefaultDigestAlgorithm("sha256"))
}

// responseBlock spells the response with the body that is archived: the
// transfer's own framing is gone, and the length is that of the body kept.
func responseBlock(e *exchange) []byte {
	header := e.header.Clone()
	header.Del("Transfer-Encoding")
	header.Set("Content-Length", strconv.Itoa(len(e.body)))
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %d %s\r\n", e.proto, e.status, http.StatusText(e.status))
	writeHeader(&b, header)
	b.Write(e.body)
	return b.Bytes()
}

func requestBlock(e *exchange) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s %s\r\n", e.target.RequestURI(), e.proto)
	writeHeader(&b, e.request)
	return b.Bytes()
}

func writeHeader(b *bytes.Buffer, header http.Header) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			fmt.Fprintf(b, "%s: %s\r\n", name, strings.Join(strings.Fields(value), " "))
		}
	}
	b.WriteString("\r\n")
}

func newRecordID() string {
	return "<urn:uuid:" + newUUID() + ">"
}

// newUUID stays away from the uuid package's shared pool (see builders).
func newUUID() string {
	return uuid.Must(uuid.NewRandomFromReader(rand.Reader)).String()
}

func sha256Base32(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + base32.StdEncoding.EncodeToString(sum[:])
}
