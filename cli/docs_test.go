package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commandLine matches a command of the program in code of the documentation:
// between backticks, or a line of a fenced block.
var (
	commandLine = regexp.MustCompile("(?m)(?:`|^\\s*)openmanus ([a-z]+)(?: ([a-z]+))?")
	fenced      = regexp.MustCompile("(?s)```.*?```")
	inline      = regexp.MustCompile("`[^`\n]+`")
)

// TestDocumentedCommands runs every command that the documentation names, with
// --help: it exists, and its flags can be read.
func TestDocumentedCommands(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	groups := []string{"model", "env", "config"}
	seen := map[string]bool{}
	for _, file := range append(files, "../README.md") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code := strings.Join(append(inline.FindAllString(string(b), -1), fenced.FindAllString(string(b), -1)...), "\n")
		for _, m := range commandLine.FindAllStringSubmatch(code, -1) {
			args := []string{m[1]}
			if slices.Contains(groups, m[1]) && m[2] != "" {
				args = append(args, m[2])
			}
			seen[strings.Join(args, " ")] = true
		}
	}
	if len(seen) < 8 {
		t.Fatalf("only %d commands found in the documentation: %v", len(seen), seen)
	}
	for command := range seen {
		t.Run(command, func(t *testing.T) {
			ts := newTestState(t, append(strings.Fields(command), "--help")...)
			if code := Main(ts.State); code != 0 {
				t.Fatalf("exit code %d: %s", code, ts.err.String())
			}
			if !strings.Contains(ts.out.String(), "openmanus "+command) {
				t.Errorf("the help text does not name %q:\n%s", command, ts.out.String())
			}
		})
	}
}
