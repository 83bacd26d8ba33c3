package feeds

import (
	"archive/zip"
	"bytes"
	"errors"
	"strings"
	"testing"
)

// A bundle that unpacks to more than is allowed costs no more than that.
func TestABundleLargerThanItLooks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size  int
		words string
	}{{maxUnpacked, ""}, {maxUnpacked + 1, "larger than the limit"}} {
		var body bytes.Buffer
		bundle := zip.NewWriter(&body)
		member, err := bundle.Create("al052026_pts.shp")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := member.Write(make([]byte, c.size)); err != nil {
			t.Fatal(err)
		}
		if err := bundle.Close(); err != nil {
			t.Fatal(err)
		}
		page, err := splitNHCWindSwath(body.Bytes(), Params{Storm: "al052026"})
		switch {
		case c.words == "" && (err != nil || len(page.Items) != 1):
			t.Errorf("%d bytes unpacked: %d items, error %v", c.size, len(page.Items), err)
		case c.words != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.words)):
			t.Errorf("%d bytes unpacked: error %v, want %q", c.size, err, c.words)
		}
	}
}
