package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// markdown renders pages. HTML in pages is kept, since the pages are the project's.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(html.WithUnsafe()))

// page is a page of the site.
type page struct {
	source  string // path in the checkout, with slashes
	name    string // file name in the site
	text    []byte
	tree    ast.Node
	anchors map[string]bool
	body    string // HTML of the text
}

// entry is a page in the menu.
type entry struct{ Title, Name string }

// section is a part of the menu.
type section struct {
	Title   string
	Entries []entry
}

// site is a site that is being written.
type site struct {
	root, out string
	pages     map[string]*page // by source
	files     map[string]bool  // sources of copied files that pages link to
}

// rawImage matches the address of an image in HTML.
var rawImage = regexp.MustCompile(`\b(src|srcset)="([^"]+)"`)

// extras lists pages outside docs with their names in the site.
var extras = map[string]string{"README.md": "readme.html", "CONTRIBUTING.md": "contributing.html"}

// write writes the site of the checkout root to the folder out and returns the number of pages.
func write(root, out string) (int, error) {
	s := &site{root: root, out: out, pages: map[string]*page{}, files: map[string]bool{}}
	sources, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return 0, err
	}
	for _, source := range sources {
		name := filepath.Base(source)
		if err := s.read("docs/"+name, strings.TrimSuffix(name, ".md")+".html"); err != nil {
			return 0, err
		}
	}
	for source, name := range extras {
		if err := s.read(source, name); err != nil {
			return 0, err
		}
	}
	index, ok := s.pages["docs/index.md"]
	if !ok {
		return 0, fmt.Errorf("%s/docs has no index.md", root)
	}
	var faults []error
	for _, source := range s.sources() {
		p := s.pages[source]
		faults = append(faults, s.link(p)...)
		var body bytes.Buffer
		faults = append(faults, markdown.Renderer().Render(&body, p.text, p.tree))
		p.body = rawImage.ReplaceAllStringFunc(body.String(), func(attribute string) string {
			m := rawImage.FindStringSubmatch(attribute)
			if strings.HasPrefix(m[2], "files/") { // an image of Markdown, which link has replaced
				return attribute
			}
			to, err := s.target(p, m[2])
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: image %s: %w", p.source, m[2], err))
			}
			return m[1] + `="` + to + `"`
		})
	}
	if err := errors.Join(faults...); err != nil {
		return 0, err
	}
	if err := os.RemoveAll(out); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return 0, err
	}
	menu := s.menu(index)
	for _, source := range s.sources() {
		if err := s.render(s.pages[source], menu); err != nil {
			return 0, fmt.Errorf("%s: %w", source, err)
		}
	}
	for source := range s.files {
		if err := s.copyFile(source); err != nil {
			return 0, err
		}
	}
	return len(s.pages), nil
}

// sources returns the sources of the pages in order.
func (s *site) sources() []string {
	var list []string
	for source := range s.pages {
		list = append(list, source)
	}
	slices.Sort(list)
	return list
}

// read parses a page.
func (s *site) read(source, name string) error {
	b, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(source)))
	if err != nil {
		return err
	}
	tree := markdown.Parser().Parse(text.NewReader(b), parser.WithContext(parser.NewContext(parser.WithIDs(headingIDs{}))))
	p := &page{source: source, name: name, text: b, tree: tree, anchors: map[string]bool{}}
	s.pages[source] = p
	return ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if h, ok := n.(*ast.Heading); ok && entering {
			if id, ok := h.AttributeString("id"); ok {
				p.anchors[string(id.([]byte))] = true
			}
		}
		return ast.WalkContinue, nil
	})
}

// link replaces the targets of the relative links and images of a page by their names in the site. It returns an error for each
// target that does not exist.
func (s *site) link(p *page) (faults []error) {
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		var target *[]byte
		switch n := n.(type) {
		case *ast.Link:
			target = &n.Destination
		case *ast.Image:
			target = &n.Destination
		}
		if target == nil || !entering {
			return ast.WalkContinue, nil
		}
		to, err := s.target(p, string(*target))
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: link to %s: %w", p.source, *target, err))
		}
		*target = []byte(to)
		return ast.WalkContinue, nil
	})
	return faults
}

// target returns the address in the site of a link on page p.
func (s *site) target(p *page, link string) (string, error) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return link, nil
	}
	file, anchor, anchored := strings.Cut(link, "#")
	to := p
	if file != "" {
		source := path.Join(path.Dir(p.source), file)
		if to = s.pages[source]; to == nil {
			info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(source)))
			if err != nil {
				return link, errors.New("no such file")
			}
			if info.IsDir() {
				return link, errors.New("a folder cannot be shown; link to a file")
			}
			s.files[source] = true
			return fileName(source), nil
		}
	}
	if !anchored {
		return to.name, nil
	}
	if !to.anchors[anchor] {
		return link, fmt.Errorf("%s has no heading with this anchor", to.source)
	}
	return to.name + "#" + anchor, nil
}

// fileName returns the name of a copied file in the site. Browsers show text files with the suffix .txt and download others.
func fileName(source string) string {
	switch path.Ext(source) {
	case ".png", ".jpg", ".svg", ".gif", ".webp":
		return "files/" + source
	}
	return "files/" + source + ".txt"
}

func (s *site) copyFile(source string) error {
	b, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(source)))
	if err != nil {
		return err
	}
	to := filepath.Join(s.out, filepath.FromSlash(fileName(source)))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// menu returns the menu: a section per second-level heading of the index, with the first links of the items of its lists. Call it
// after link.
func (s *site) menu(index *page) []section {
	var menu []section
	for n := index.tree.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				menu = append(menu, section{Title: textOf(n, index.text)})
			}
		case *ast.List:
			for item := n.FirstChild(); item != nil && len(menu) > 0; item = item.NextSibling() {
				if link := firstLink(item); link != nil && !strings.Contains(string(link.Destination), "://") {
					last := &menu[len(menu)-1]
					last.Entries = append(last.Entries, entry{textOf(link, index.text), string(link.Destination)})
				}
			}
		}
	}
	return menu
}

func firstLink(n ast.Node) (found *ast.Link) {
	_ = ast.Walk(n, func(n ast.Node, _ bool) (ast.WalkStatus, error) { // the function returns no error
		if link, ok := n.(*ast.Link); ok {
			found = link
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return found
}

// textOf returns the text of a node without markup.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// render writes the HTML of a page.
func (s *site) render(p *page, menu []section) error {
	title := p.name
	if h, ok := p.tree.FirstChild().(*ast.Heading); ok {
		title = textOf(h, p.text)
	}
	data := map[string]any{"Title": title, "Menu": menu, "Current": p.name, "Body": template.HTML(p.body)}
	order := []entry{{"Documentation", "index.html"}}
	for _, part := range menu {
		order = append(order, part.Entries...)
	}
	if i := slices.IndexFunc(order, func(e entry) bool { return e.Name == p.name }); i >= 0 {
		if i > 0 {
			data["Previous"] = order[i-1]
		}
		if i+1 < len(order) {
			data["Next"] = order[i+1]
		}
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.out, p.name), b.Bytes(), 0o644)
}
