package browserhive

import (
	"bytes"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// link is one anchor of a page.
type link struct {
	Href string  `json:"href"`
	Text string  `json:"text"`
	Rel  *string `json:"rel"`
}

// page is what the stand-in reads out of an HTML document.
type page struct {
	title string
	// links are absolute http(s) URLs with their fragments, each once.
	links []link
	// resources are the images, styles and scripts, each once.
	resources []*url.URL
}

// parsePage reads a document that was fetched from base. HTML has no syntax
// errors, so neither has this.
func parsePage(body []byte, base *url.URL) page {
	root, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return page{} // only a failing reader makes an error
	}
	p := parser{base: base, seenLinks: map[string]bool{}, seenResources: map[string]bool{}}
	p.page.links = []link{}
	for node := range root.Descendants() {
		if node.Type == html.ElementNode {
			p.element(node)
		}
	}
	return p.page
}

type parser struct {
	base                     *url.URL
	page                     page
	seenLinks, seenResources map[string]bool
}

func (p *parser) element(node *html.Node) {
	switch node.DataAtom {
	case atom.Title:
		if p.page.title == "" {
			p.page.title = text(node)
		}
	case atom.Base:
		if u := p.resolve(attribute(node, "href")); u != nil {
			p.base = u
		}
	case atom.A, atom.Area:
		p.link(node)
	case atom.Img, atom.Script:
		p.resource(attribute(node, "src"))
	case atom.Link:
		for rel := range strings.FieldsSeq(strings.ToLower(attribute(node, "rel"))) {
			if rel == "stylesheet" || rel == "icon" {
				p.resource(attribute(node, "href"))
			}
		}
	}
}

func (p *parser) link(node *html.Node) {
	u := p.resolve(attribute(node, "href"))
	if u == nil || p.seenLinks[u.String()] {
		return
	}
	p.seenLinks[u.String()] = true
	l := link{Href: u.String(), Text: text(node)}
	if rel := attribute(node, "rel"); rel != "" {
		l.Rel = &rel
	}
	p.page.links = append(p.page.links, l)
}

func (p *parser) resource(ref string) {
	u := p.resolve(ref)
	if u == nil {
		return
	}
	u.Fragment, u.RawFragment = "", ""
	if !p.seenResources[u.String()] {
		p.seenResources[u.String()] = true
		p.page.resources = append(p.page.resources, u)
	}
}

// resolve returns nil for what is empty, not a URL, or not http(s).
func (p *parser) resolve(ref string) *url.URL {
	ref = strings.TrimSpace(ref)
	if ref == "" {
		return nil
	}
	u, err := p.base.Parse(ref)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil
	}
	return u
}

func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text is the text under a node, white space folded.
func text(node *html.Node) string {
	var b strings.Builder
	for n := range node.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
