package browserhive_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nlnwa/gowarc/v2"

	"github.com/muniment/muniment/deploy/standins/browserhive"
	"github.com/muniment/muniment/deploy/standins/site"
)

// archive is a WACZ read back.
type archive struct {
	files map[string][]byte
}

func openWACZ(t *testing.T, data []byte) archive {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatalf("opening the WACZ: %v", err)
	}
	a := archive{files: map[string][]byte{}}
	for _, f := range r.File {
		if f.Method != zip.Store {
			t.Errorf("%s is compressed inside the zip", f.Name)
		}
		rc, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if a.files[f.Name], err = io.ReadAll(rc); err != nil {
			t.Fatalf("reading %s: %v", f.Name, err)
		}
		rc.Close()
	}
	return a
}

type cdxLine struct {
	key, timestamp                                           string
	URL, MIME, Status, Digest, Length, Offset, Filename, raw string
}

func (a archive) index(t *testing.T) []cdxLine {
	t.Helper()
	var lines []cdxLine
	scanner := bufio.NewScanner(bytes.NewReader(a.files["indexes/index.cdxj"]))
	for scanner.Scan() {
		parts := strings.SplitN(scanner.Text(), " ", 3)
		if len(parts) != 3 {
			t.Fatalf("index line %q", scanner.Text())
		}
		line := cdxLine{key: parts[0], timestamp: parts[1], raw: scanner.Text()}
		if err := json.Unmarshal([]byte(parts[2]), &line); err != nil {
			t.Fatalf("index line %q: %v", scanner.Text(), err)
		}
		lines = append(lines, line)
	}
	return lines
}

// Not parallel: reading with gowarc writes an unguarded global, like building.
func TestWACZReadsBackWhole(t *testing.T) {
	demo := httptest.NewServer(site.Handler())
	t.Cleanup(demo.Close)
	s := newSink(t)
	server := newStandIn(t, browserhive.Settings{})
	for _, page := range []string{"/", "/moved", "/docs/%E6%B8%AF.html", "/docs/deep.html"} {
		got := capture(t, server, body(demo.URL+page, s, nil))
		if got.status != http.StatusOK || got.Report.Status != "success" {
			t.Fatalf("%s: %+v", page, got)
		}
		a := openWACZ(t, s.file(t, got.Report.Artifacts["wacz"]))
		checkPackage(t, a)
		checkIndex(t, a)
		checkPages(t, a, demo.URL+page)
	}
}

// checkPackage: every file is listed with its size and hash, and the list
// itself is vouched for.
func checkPackage(t *testing.T, a archive) {
	t.Helper()
	var contents struct {
		Profile   string
		Version   string `json:"wacz_version"`
		Resources []struct {
			Name, Path, Hash string
			Bytes            int
		}
	}
	if err := json.Unmarshal(a.files["datapackage.json"], &contents); err != nil {
		t.Fatalf("datapackage.json: %v", err)
	}
	if contents.Profile != "data-package" || contents.Version != "1.1.1" {
		t.Errorf("profile %q, version %q", contents.Profile, contents.Version)
	}
	listed := []string{"datapackage.json", "datapackage-digest.json"}
	for _, r := range contents.Resources {
		listed = append(listed, r.Path)
		data, there := a.files[r.Path]
		if !there || r.Bytes != len(data) || r.Hash != "sha256:"+hexSum(data) || !strings.HasSuffix(r.Path, "/"+r.Name) {
			t.Errorf("resource %+v does not describe the %d bytes with %s", r, len(data), hexSum(data))
		}
	}
	for name := range a.files {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is in the zip and not in datapackage.json", name)
		}
	}
	var digest struct{ Path, Hash string }
	if err := json.Unmarshal(a.files["datapackage-digest.json"], &digest); err != nil {
		t.Fatalf("datapackage-digest.json: %v", err)
	}
	if digest.Path != "datapackage.json" || digest.Hash != "sha256:"+hexSum(a.files["datapackage.json"]) {
		t.Errorf("digest %+v", digest)
	}
}

// checkIndex: each line leads to one gzip member that holds exactly that
// response, whose digests are right, and every response has its line.
func checkIndex(t *testing.T, a archive) {
	t.Helper()
	warc := a.files["archive/data.warc.gz"]
	lines := a.index(t)
	if !slices.IsSortedFunc(lines, func(x, y cdxLine) int { return strings.Compare(x.raw, y.raw) }) {
		t.Error("the index is not sorted")
	}
	for _, line := range lines {
		offset, _ := strconv.Atoi(line.Offset)
		length, _ := strconv.Atoi(line.Length)
		if line.Filename != "data.warc.gz" || offset <= 0 || length <= 0 || offset+length > len(warc) {
			t.Fatalf("index line %+v", line)
		}
		member := singleMember(t, warc[offset:offset+length])
		record := readRecord(t, member)
		header := record.WarcHeader()
		if record.Type() != gowarc.Response || header.Get(gowarc.WarcTargetURI) != line.URL {
			t.Fatalf("%s leads to %s of %s", line.URL, record.Type(), header.Get(gowarc.WarcTargetURI))
		}
		_, block, _ := bytes.Cut(member, []byte("\r\n\r\n"))
		block = bytes.TrimSuffix(block, []byte("\r\n\r\n"))
		_, payload, _ := bytes.Cut(block, []byte("\r\n\r\n"))
		if got := header.Get(gowarc.WarcBlockDigest); got != base32Sum(block) {
			t.Errorf("%s: block digest %s, computed %s", line.URL, got, base32Sum(block))
		}
		if got := header.Get(gowarc.WarcPayloadDigest); got != base32Sum(payload) || line.Digest != got {
			t.Errorf("%s: payload digest %s, index %s, computed %s", line.URL, got, line.Digest, base32Sum(payload))
		}
		response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(block)), nil)
		if err != nil || strconv.Itoa(response.StatusCode) != line.Status {
			t.Errorf("%s: the block is no HTTP response: %v", line.URL, err)
		}
	}
	kinds := map[gowarc.RecordType]int{}
	reader, err := gowarc.NewWarcFileReaderFromStream(bytes.NewReader(warc), 0, gowarc.WithStrictValidation())
	if err != nil {
		t.Fatal(err)
	}
	for {
		record, _, validation, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || !validation.Valid() {
			t.Fatalf("reading the WARC: %v %v", err, validation)
		}
		if record.Version().String() != "WARC/1.1" {
			t.Errorf("version %s", record.Version())
		}
		kinds[record.Type()]++
		record.Close()
	}
	if kinds[gowarc.Response] != len(lines) || kinds[gowarc.Request] != len(lines) || kinds[gowarc.Warcinfo] != 1 {
		t.Errorf("%d index lines for %v", len(lines), kinds)
	}
}

func checkPages(t *testing.T, a archive, page string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(a.files["pages/pages.jsonl"])), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"json-pages-1.0"`) {
		t.Fatalf("pages.jsonl: %q", lines)
	}
	var p struct{ URL, TS, Title string }
	if err := json.Unmarshal([]byte(lines[1]), &p); err != nil || p.URL != page || p.TS == "" || p.Title == "" {
		t.Errorf("page %q: %v", lines[1], err)
	}
	found := slices.ContainsFunc(a.index(t), func(l cdxLine) bool { return l.URL == page })
	if !found {
		t.Errorf("the index does not hold the page %s", page)
	}
}

// singleMember unzips data and insists that it is exactly one gzip member.
func singleMember(t *testing.T, data []byte) []byte {
	t.Helper()
	in := bytes.NewReader(data)
	r, err := gzip.NewReader(in)
	if err != nil {
		t.Fatalf("no gzip member there: %v", err)
	}
	r.Multistream(false)
	content, err := io.ReadAll(r)
	if err != nil || in.Len() != 0 {
		t.Fatalf("the member does not end where the index says: %v, %d bytes left", err, in.Len())
	}
	return content
}

func readRecord(t *testing.T, member []byte) gowarc.WarcRecord {
	t.Helper()
	record, _, validation, err := gowarc.NewUnmarshaler(gowarc.WithStrictValidation()).Unmarshal(bufio.NewReader(bytes.NewReader(member)))
	if err != nil || !validation.Valid() {
		t.Fatalf("reading a record: %v %v", err, validation)
	}
	t.Cleanup(func() { record.Close() })
	return record
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func base32Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + base32.StdEncoding.EncodeToString(sum[:])
}
