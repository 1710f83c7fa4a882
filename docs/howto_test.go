package docs

import (
	"encoding/json"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// howtos are the pages whose worked example is tested here: the code that the
// page shows is compiled as if it stood where the page says, the lines that it
// changes are changed, and the commands that it gives are run. Nothing is
// written into the tree.
var howtos = []string{"howto-format.md", "howto-environment.md", "howto-reward.md", "howto-data.md", "howto-model.md"}

var (
	// A file is named on a line of its own before its code; see below.
	shownFile = regexp.MustCompile("(?ms)^`([a-z_/]+\\.go)`:\n\n```(go|diff)\n(.*?)^```$")
	shellText = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
)

func TestHowtos(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles every example")
	}
	for _, page := range howtos {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			overlay, files := shown(t, string(text))
			commands := 0
			for _, m := range shellText.FindAllStringSubmatch(string(text), -1) {
				for line := range strings.Lines(m[1]) {
					args, ok := strings.CutPrefix(strings.TrimSpace(line), "go test ")
					if !ok {
						t.Errorf("%q is no go test: this page's test cannot run it", line)
						continue
					}
					commands++
					goTest(t, overlay, strings.Fields(args))
				}
			}
			if files < 2 || commands == 0 {
				t.Errorf("the page shows %d files and %d commands, want an example, its test and how to run it", files, commands)
			}
			if lines := strings.Count(string(text), "\n"); lines > 200 {
				t.Errorf("%d lines are more than ten minutes' reading", lines)
			}
		})
	}
}

// shown puts the files of a page into a folder of their own and returns the
// overlay that lets go see them in the tree.
func shown(t *testing.T, page string) (overlay string, files int) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for i, m := range shownFile.FindAllStringSubmatch(page, -1) {
		path, kind, text := filepath.Join(root, m[1]), m[2], m[3]
		old, err := os.ReadFile(path)
		switch {
		case kind == "diff" && err != nil:
			t.Fatal(err)
		case kind == "diff":
			text = changed(t, m[1], string(old), text)
		case err == nil && string(old) == text: // somebody has followed the page
			files++
		case err == nil:
			t.Errorf("%s is there already: the example would replace it", m[1])
		default:
			files++
		}
		at := filepath.Join(dir, string(rune('a'+i))+".go")
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
			t.Errorf("%s is not as gofmt would have it: %v", m[1], err)
		}
		replace[path] = at
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return overlay, files
}

// changed replaces the lines of a diff that begin with - by those that begin
// with +. They have to be in the file once.
func changed(t *testing.T, name, text, diff string) string {
	t.Helper()
	var old, now strings.Builder
	for line := range strings.Lines(diff) {
		switch line[0] {
		case '-':
			old.WriteString(line[1:])
		case '+':
			now.WriteString(line[1:])
		default:
			t.Fatalf("a line of a change begins with - or +, not as %q", line)
		}
	}
	if strings.Contains(text, now.String()) && !strings.Contains(text, old.String()) {
		return text // somebody has followed the page
	}
	if n := strings.Count(text, old.String()); n != 1 {
		t.Fatalf("%s has the lines that the page changes %d times:\n%s", name, n, old.String())
	}
	return strings.Replace(text, old.String(), now.String(), 1)
}

// goTest runs go test with args and wants tests to have passed.
func goTest(t *testing.T, overlay string, args []string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"test", "-overlay", overlay, "-v", "-count=1"}, args...)...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("go test %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
