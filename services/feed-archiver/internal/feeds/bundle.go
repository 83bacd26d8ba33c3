package feeds

import (
	"archive/zip"
	"bytes"
	"io"
	"path"
	"regexp"
	"strings"
)

// maxUnpacked bounds what checking a bundle may decompress.
const maxUnpacked = 64 << 20

// openBundle checks a zip archive: that it is one, whole, with every member's
// checksum right, that some member has a name of the given form, and that all
// such members are of the storm (the form's first group), where one is given.
func openBundle(body []byte, form *regexp.Regexp, storm string) (*zip.Reader, error) {
	bundle, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return nil, refused("the body is not a zip archive, or is cut off")
	}
	if err := unpackAll(bundle); err != nil {
		return nil, err
	}
	matched := false
	for _, file := range bundle.File {
		found := form.FindStringSubmatch(path.Base(file.Name))
		if found == nil {
			continue
		}
		if storm != "" && !strings.EqualFold(found[1], storm) {
			return nil, refused("the archive is of another storm")
		}
		matched = true
	}
	if !matched {
		return nil, refused("the archive holds other products than this feed's")
	}
	return bundle, nil
}

func unpackAll(bundle *zip.Reader) error {
	left := int64(maxUnpacked)
	for _, file := range bundle.File {
		content, err := file.Open()
		if err != nil {
			return refused("a member of the archive cannot be opened")
		}
		n, err := io.Copy(io.Discard, io.LimitReader(content, left+1))
		_ = content.Close()
		if err != nil {
			return refused("a member of the archive is broken")
		}
		if left -= n; left < 0 {
			return refused("the archive's content is larger than the limit")
		}
	}
	return nil
}

// bundleMember returns the content of the first member whose name ends so; nil
// where there is none. unpackAll has bounded it.
func bundleMember(bundle *zip.Reader, suffix string) []byte {
	for _, file := range bundle.File {
		if !strings.HasSuffix(strings.ToLower(file.Name), suffix) {
			continue
		}
		content, err := file.Open()
		if err != nil {
			return nil
		}
		defer func() { _ = content.Close() }()
		data, err := io.ReadAll(content)
		if err != nil {
			return nil
		}
		return data
	}
	return nil
}
