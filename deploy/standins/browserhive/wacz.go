package browserhive

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wacz describes the archive of one page.
type wacz struct {
	taskID    string
	pageURL   string
	title     string
	started   time.Time
	created   time.Time
	exchanges []*exchange
	complete  *completeness
}

// dataPackage is datapackage.json, the WACZ's own table of contents.
type dataPackage struct {
	Profile      string        `json:"profile"`
	WACZVersion  string        `json:"wacz_version"`
	Name         string        `json:"name"`
	Title        string        `json:"title,omitempty"`
	Software     string        `json:"software"`
	Created      time.Time     `json:"created"`
	MainPageURL  string        `json:"mainPageUrl"`
	MainPageDate time.Time     `json:"mainPageDate"`
	Resources    []resource    `json:"resources"`
	Completeness *completeness `json:"browserhive:completeness"`
}

type resource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash"`
	Bytes int    `json:"bytes"`
}

// packageDigest is datapackage-digest.json, which vouches for datapackage.json.
type packageDigest struct {
	Path string `json:"path"`
	Hash string `json:"hash"`
}

// build packs the archive as WACZ 1.1.1. Every file is stored, not compressed:
// the specification wants it so for what is compressed already, and the others
// are small.
func (a wacz) build() ([]byte, error) {
	warc, index, err := writeWARC(a.exchanges, "Capture of "+a.pageURL, a.started)
	if err != nil {
		return nil, fmt.Errorf("writing the WARC: %w", err)
	}
	cdxj, err := writeCDXJ(index)
	if err != nil {
		return nil, fmt.Errorf("writing the index: %w", err)
	}
	pages, err := a.pages()
	if err != nil {
		return nil, fmt.Errorf("writing the page list: %w", err)
	}
	b := &waczBuilder{modified: a.created}
	b.zip = zip.NewWriter(&b.file)
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"archive/" + warcName, warc},
		{"pages/pages.jsonl", pages},
		{"indexes/index.cdxj", cdxj},
	} {
		if err := b.add(f.name, f.data); err != nil {
			return nil, err
		}
	}
	contents, err := json.MarshalIndent(dataPackage{
		Profile: "data-package", WACZVersion: "1.1.1",
		Name: "browserhive-" + a.taskID, Title: a.title, Software: userAgent, Created: a.created,
		MainPageURL: a.pageURL, MainPageDate: a.started, Resources: b.resources, Completeness: a.complete,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding datapackage.json: %w", err)
	}
	digest, err := json.MarshalIndent(packageDigest{Path: "datapackage.json", Hash: sha256Hex(contents)}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding datapackage-digest.json: %w", err)
	}
	if err := b.add("datapackage.json", contents); err != nil {
		return nil, err
	}
	if err := b.add("datapackage-digest.json", digest); err != nil {
		return nil, err
	}
	if err := b.zip.Close(); err != nil {
		return nil, fmt.Errorf("closing the zip: %w", err)
	}
	return b.file.Bytes(), nil
}

func (a wacz) pages() ([]byte, error) {
	page := struct {
		ID    string    `json:"id"`
		URL   string    `json:"url"`
		TS    time.Time `json:"ts"`
		Title string    `json:"title,omitempty"`
	}{a.taskID, a.pageURL, a.started, a.title}
	line, err := json.Marshal(page)
	if err != nil {
		return nil, fmt.Errorf("encoding the page: %w", err)
	}
	head := `{"format":"json-pages-1.0","id":"pages","title":"All Pages"}`
	return []byte(head + "\n" + string(line) + "\n"), nil
}

type waczBuilder struct {
	file      bytes.Buffer
	zip       *zip.Writer
	modified  time.Time
	resources []resource
}

func (b *waczBuilder) add(name string, data []byte) error {
	w, err := b.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: b.modified})
	if err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	b.resources = append(b.resources, resource{
		Name: name[strings.LastIndexByte(name, '/')+1:], Path: name, Hash: sha256Hex(data), Bytes: len(data),
	})
	return nil
}

// cdxEntry is the JSON part of a line; every value is a text, as the CDXJ of
// the reference tools has it.
type cdxEntry struct {
	URL      string `json:"url"`
	MIME     string `json:"mime"`
	Status   string `json:"status"`
	Digest   string `json:"digest"`
	Length   string `json:"length"`
	Offset   string `json:"offset"`
	Filename string `json:"filename"`
}

// writeCDXJ writes the sorted index: "<key> <timestamp> <JSON>" a line.
func writeCDXJ(index []indexed) ([]byte, error) {
	lines := make([]string, 0, len(index))
	for _, at := range index {
		target := *at.exchange.target
		target.Fragment, target.RawFragment = "", ""
		entry, err := json.Marshal(cdxEntry{
			URL: target.String(), MIME: cmp.Or(at.exchange.mime(), "application/octet-stream"),
			Status: strconv.Itoa(at.exchange.status), Digest: at.digest,
			Length: strconv.FormatInt(at.length, 10), Offset: strconv.FormatInt(at.offset, 10), Filename: warcName,
		})
		if err != nil {
			return nil, fmt.Errorf("encoding an entry: %w", err)
		}
		lines = append(lines, surt(&target)+" "+at.exchange.started.UTC().Format("20060102150405")+" "+string(entry)+"\n")
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "")), nil
}

// surt is a URL's sort key: the host's labels reversed, then path and query,
// in lower case, as BrowserHive spells it (no port).
func surt(u *url.URL) string {
	labels := strings.Split(u.Hostname(), ".")
	slices.Reverse(labels)
	key := strings.Join(labels, ",") + ")" + cmp.Or(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		key += "?" + u.RawQuery
	}
	return strings.ToLower(key)
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
