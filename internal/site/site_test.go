package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	href = regexp.MustCompile(`(?:href|src|srcset)="([^"]*)"`)
	id   = regexp.MustCompile(` id="([^"]*)"`)
)

// TestSite builds the site of this checkout and checks that every link between its files leads to a file and an anchor of the site,
// that each page can be reached from the index, and that the site needs no network.
func TestSite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "docs")
	n, err := write("../..", out)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("../../docs/*.md")
	if err != nil || n != len(sources)+len(extras) {
		t.Errorf("%d pages for %d sources, error %v", n, len(sources)+len(extras), err)
	}
	pages := map[string]string{}
	for _, file := range glob(t, out) {
		b, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}
		pages[file] = string(b)
	}
	anchors := map[string][]string{}
	for name, text := range pages {
		for _, m := range id.FindAllStringSubmatch(text, -1) {
			anchors[name] = append(anchors[name], m[1])
		}
	}
	links := map[string][]string{}
	for name, text := range pages {
		for _, m := range href.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			if _, err := os.Stat(filepath.Join(out, file)); err != nil {
				t.Errorf("%s: link to %s: no such file", name, m[1])
			}
			if anchor != "" && !slices.Contains(anchors[file], anchor) {
				t.Errorf("%s: link to %s: no such anchor", name, m[1])
			}
			links[name] = append(links[name], file)
		}
		if strings.Contains(text, "<link ") || strings.Contains(text, "<script") || strings.Contains(text, `<img src="http`) || strings.Contains(text, "@import") {
			t.Errorf("%s loads other files", name)
		}
	}
	reached, queue := map[string]bool{"index.html": true}, []string{"index.html"}
	for len(queue) > 0 {
		for _, to := range links[queue[0]] {
			if !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
		queue = queue[1:]
	}
	for name := range pages {
		if !reached[name] {
			t.Errorf("no link leads from the index to %s: add the page to docs/index.md", name)
		}
	}
}

func glob(t *testing.T, out string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(out), "*.html")
	if err != nil || len(names) == 0 {
		t.Fatalf("pages %q, error %v", names, err)
	}
	return names
}

// TestSiteParts checks the menu, the links to files and pages, and the errors of links.
func TestSiteParts(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("README.md", "# Readme\n\n[docs](docs/one.md)\n\n<picture><source media=\"x\" srcset=\"docs/picture.png\"><img src=\"docs/picture.png\"></picture>\n")
	put("CONTRIBUTING.md", "# Contributing\n")
	put("code.go", "package code\n")
	put("docs/picture.png", "png")
	put("docs/index.md", "# Docs\n\n## First `part`\n\n- [One](one.md): the first page\n- [Elsewhere](https://example.org)\n\n## Second\n\n- [Readme](../README.md)\n")
	put("docs/one.md", "# The `one`\n\n## Two words\n\n[here](#two-words) [top_p](#with-top_p-and-a) [again](#two-words-1) [code](../code.go) ![p](picture.png) <b>&</b>\n\n| a |\n| --- |\n| 1 < 2 |\n\n## With `top_p`, and [`a`]\n\n## Two words\n")
	out := filepath.Join(root, "out")
	put("out/stale.html", "of an earlier build")
	if n, err := write(root, out); err != nil || n != 4 {
		t.Fatalf("%d pages, error %v", n, err)
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one := read("one.html")
	for _, want := range []string{"<title>The one - openmanus</title>", "<h2>First part</h2>", `href="one.html" aria-current="page">One</a>`, `href="one.html#two-words"`,
		`href="files/code.go.txt"`, `src="files/docs/picture.png"`, "<td>1 &lt; 2</td>", `<a href="index.html" rel="prev">`, `<a href="readme.html" rel="next">`} {
		if !strings.Contains(one, want) {
			t.Errorf("one.html lacks %s", want)
		}
	}
	if read("files/code.go.txt") != "package code\n" || read("files/docs/picture.png") != "png" {
		t.Error("linked files are not copied")
	}
	if readme := read("readme.html"); strings.Count(readme, `="files/docs/picture.png"`) != 2 {
		t.Errorf("images in HTML have other addresses:\n%s", readme)
	}
	if _, err := os.Stat(filepath.Join(out, "stale.html")); err == nil {
		t.Error("a page of an earlier build remains")
	}
	before := one
	put("docs/two.md", "# Two\n\n<img src=\"none.png\">\n")
	if _, err := write(root, out); err == nil || !strings.Contains(err.Error(), "none.png") {
		t.Errorf("a missing image: error %v", err)
	}
	for link, want := range map[string]string{"none.md": "no such file", "one.md#nowhere": "no heading", "../docs": "folder"} {
		put("docs/two.md", "# Two\n\n[x]("+link+")\n")
		if _, err := write(root, out); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), link) {
			t.Errorf("link to %s: error %v, want %q", link, err, want)
		}
	}
	if read("one.html") != before {
		t.Error("a failed build changed the site")
	}
}
