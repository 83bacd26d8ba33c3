package feedtest

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
)

// Answer is one answer as a test wants it. The zero value is an empty 200.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
	// Gzip compresses the body. CutAfter then cuts the compressed stream.
	Gzip bool
	// CutAfter sends so many bytes of the body, if it is not 0, under the length
	// of all of it, and breaks the connection.
	CutAfter int
	// CutQuietly makes CutAfter state the shorter length, as a broken file on the
	// server would have.
	CutQuietly bool
	// Hang sends the header and the first byte, and then nothing until the reader
	// goes away.
	Hang bool
}

func (a Answer) send(w http.ResponseWriter, r *http.Request) {
	body := a.Body
	if a.Gzip {
		body = Gzip(body)
		w.Header().Set("Content-Encoding", "gzip")
	}
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	whole := len(body)
	if a.CutAfter > 0 {
		body = body[:min(a.CutAfter, whole)]
		if a.CutQuietly {
			whole = len(body)
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(whole))
	w.WriteHeader(max(a.Status, http.StatusOK))
	if a.Hang {
		_, _ = w.Write(body[:1])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	_, _ = w.Write(body)
	if len(body) < whole {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// Gzip compresses a body.
func Gzip(body []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(body)
	_ = w.Close()
	return packed.Bytes()
}
