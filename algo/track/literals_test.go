package track

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestNamesAreConstants checks that code which may import this package writes and
// reads metrics by its constants, not by literal names.
func TestNamesAreConstants(t *testing.T) {
	files := 0
	for _, dir := range []string{"../../algo", "../../cli", "../../bench"} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() && filepath.Base(path) == "track" {
				return fs.SkipDir
			}
			if e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			files++
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				if name, err := strconv.Unquote(lit.Value); err == nil && defined(name) {
					t.Errorf("%s: the metric %q is a literal: use or add a constant of algo/track", set.Position(lit.Pos()), name)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 50 {
		t.Errorf("%d files were read, want at least 50", files)
	}
}
