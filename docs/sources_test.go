package docs

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
	citation = regexp.MustCompile(`\b(spec|protocol) (\d+(?:\.\d+)?)`)
	listed   = regexp.MustCompile(`\b\d+(?:\.\d+)?\b`)
)

// TestCitedSections checks that the tables of sources.md explain every cited section.
func TestCitedSections(t *testing.T) {
	text, err := os.ReadFile("sources.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{}
	note := ""
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			note = strings.TrimSpace(heading)
			continue
		}
		cells := strings.Split(line, "|")
		if note == "" || len(cells) < 4 {
			continue
		}
		known[note] = append(known[note], strings.TrimSpace(cells[1]))
		if _, more, ok := strings.Cut(cells[2], "; also "); ok {
			known[note] = append(known[note], listed.FindAllString(more, -1)...)
		}
	}
	cited := 0
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{"../build", "../.git", "../runs"}, path) {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".cc", ".h", ".md", ".sh", ".toml"}, filepath.Ext(path)) {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range citation.FindAllStringSubmatch(string(source), -1) {
			cited++
			section, _, _ := strings.Cut(m[2], ".")
			if !slices.Contains(known[m[1]], m[2]) && !slices.Contains(known[m[1]], section) {
				t.Errorf("%s cites %q, which is not in sources.md", path, m[0])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if cited < 50 {
		t.Errorf("only %d citations found; the pattern may be out of date", cited)
	}
}
