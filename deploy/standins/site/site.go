// Package site is the small web site that the local stack crawls: a few pages
// with what a crawler must get right, namely links, a fragment, a nofollow
// link, a non-ASCII path, a redirect, an image, a stylesheet, a script, a body
// over the capture size cap, a page that is not there, one that never ends, and
// a robots.txt. It belongs to the local stack and to tests only.
package site

import (
	"embed"
	"net/http"
	"path"
	"strconv"
	"time"
)

//go:embed pages
var pages embed.FS

// BigBytes is the length of /big.bin: over the default size cap of the
// BrowserHive stand-in (see its -body-cap flag).
const BigBytes = 3 << 20

// contentTypes are stated rather than guessed: the system's tables differ.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// Handler serves the site. Paths:
//
//	/                   links to the pages below, an image, a stylesheet, a script
//	/docs/one.html      a page with links back and onwards
//	/docs/two.html      the same; /moved redirects here
//	/docs/港.html       a non-ASCII path
//	/docs/private.html  linked with rel=nofollow
//	/docs/late.html     the page whose manifest the BrowserHive stand-in holds back
//	/docs/deep.html     shows /big.bin, a body over the size cap
//	/docs/hidden.html   forbidden by robots.txt
//	/missing.html       404
//	/slow               sends nothing until the client goes away
//	/healthz            200
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", servePage)
	mux.HandleFunc("GET /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/docs/two.html", http.StatusFound)
	})
	mux.HandleFunc("GET /big.bin", serveBig)
	mux.HandleFunc("GET /slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func servePage(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path
	if name == "/" {
		name = "/index.html"
	}
	// The page's file name in the repository stays ASCII.
	if name == "/docs/港.html" {
		name = "/docs/harbour.html"
	}
	body, err := pages.ReadFile("pages" + path.Clean(name))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Last-Modified", time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC).Format(http.TimeFormat))
	_, _ = w.Write(body) // the client went away: nobody is left to tell
}

func serveBig(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(BigBytes))
	block := make([]byte, 64<<10)
	for sent := 0; sent < BigBytes; sent += len(block) {
		if _, err := w.Write(block); err != nil {
			return // a capture stops reading at its size cap
		}
	}
}
