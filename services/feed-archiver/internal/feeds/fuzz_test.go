package feeds

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// fuzzSplit gives a splitter anything, from our fixtures on. It must not
// panic, must refuse with ErrRefused, and what it does not refuse are items that
// the archive can take, in bytes that were received.
func fuzzSplit(f *testing.F, source *Source, p Params) {
	files, err := filepath.Glob(filepath.Join("testdata", source.Name, "*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		page, err := source.Split(bytes.Clone(body), p)
		if err != nil {
			if !errors.Is(err, ErrRefused) || len(page.Items) > 0 || !utf8.ValidString(err.Error()) {
				t.Fatalf("%d items with the error %v", len(page.Items), err)
			}
			return
		}
		for _, item := range page.Items {
			checkItem(t, body, item)
		}
	})
}

func checkItem(t *testing.T, body []byte, item archive.Item) {
	t.Helper()
	if err := checkName(item.ProductID); err != nil {
		t.Fatalf("a product id that %v", err)
	}
	if item.Kind < archive.JSON || item.Kind > archive.Binary || len(item.Body) == 0 {
		t.Fatalf("%s: kind %d, %d bytes", item.ProductID, item.Kind, len(item.Body))
	}
	ofCSV := item.Kind == archive.JSON && !bytes.Contains(body, item.Body)
	if ofCSV && kindOf(bytes.TrimSpace(bytes.TrimPrefix(body, byteOrderMark))) == '[' || item.Kind != archive.JSON && !bytes.Contains(body, item.Body) {
		t.Fatalf("%s is not in the bytes that were received", item.ProductID)
	}
	if item.IssuedAt != nil && (item.IssuedAt.Year() < 1900 || item.IssuedAt.Year() > 2200) {
		t.Fatalf("%s was issued in %s", item.ProductID, item.IssuedAt)
	}
}

func FuzzNWSAlerts(f *testing.F)        { fuzzSplit(f, &nwsAlerts, Params{}) }
func FuzzUSGSEarthquakes(f *testing.F)  { fuzzSplit(f, &usgsEarthquakes, Params{}) }
func FuzzNHCCurrentStorms(f *testing.F) { fuzzSplit(f, &nhcCurrentStorms, Params{}) }
func FuzzNHCATCFBestTrack(f *testing.F) { fuzzSplit(f, &nhcATCFBestTrack, Params{Storm: "al052026"}) }
func FuzzSPCDay1Outlook(f *testing.F)   { fuzzSplit(f, &spcDay1Outlook, Params{}) }
func FuzzNIFCPerimeters(f *testing.F)   { fuzzSplit(f, &nifcPerimeters, Params{}) }
func FuzzNWSDATSurveys(f *testing.F)    { fuzzSplit(f, &nwsDATSurveys, Params{}) }
func FuzzUSGSSTNHWMs(f *testing.F)      { fuzzSplit(f, &usgsSTNHWMs, Params{}) }
func FuzzNHCSurge(f *testing.F) {
	fuzzSplit(f, &nhcSurge, Params{Request: peakSurge, Member: surgeMember})
}

func FuzzNHCSurgeKML(f *testing.F) {
	fuzzSplit(f, &nhcSurge, Params{Request: "kml_al052026", File: "a.kml"})
}
func FuzzNASAFIRMS(f *testing.F) { fuzzSplit(f, &nasaFIRMS, Params{}) }

func FuzzUSGSShakeMapProducts(f *testing.F) { fuzzSplit(f, &usgsShakeMapProducts, Params{}) }
func FuzzUSGSShakeMapContours(f *testing.F) {
	fuzzSplit(f, &usgsShakeMapContours, Params{Event: "us1", Version: "2", Source: "us", Code: "1"})
}

func FuzzNHCWindSwath(f *testing.F) { fuzzSplit(f, &nhcWindSwath, Params{Storm: "al052026"}) }
func FuzzNHCForecastCone(f *testing.F) {
	fuzzSplit(f, &nhcForecastCone, Params{Storm: "al052026", File: "al052026_5day_003.zip"})
}
func FuzzOpenFEMADeclarations(f *testing.F) { fuzzSplit(f, &openFEMADeclarations, Params{}) }

// FuzzDBF reads a table of any kind.
func FuzzDBF(f *testing.F) {
	body, err := os.ReadFile(filepath.Join("testdata", "nhc_forecast_cone", "al052026_5day_003.zip"))
	if err != nil {
		f.Fatal(err)
	}
	bundle, err := openBundle(body, coneMember, "al052026")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bundleMember(bundle, "_pgn.dbf"))
	f.Fuzz(func(_ *testing.T, table []byte) { advisoryTime(dbfText(table, "ADVDATE")) })
}
