package docs

import (
	"flag"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// howtos maps each page whose worked example TestHowtos executes to the number of
// files that a reader writes or changes, tests excluded.
var howtos = map[string]int{
	"howto-data.md":        1,
	"howto-environment.md": 3, // the client, the preset and a recipe
	"howto-format.md":      1,
	"howto-method.md":      2, // an estimator and a loss
	"howto-model.md":       1,
	"howto-reward.md":      1,
	"howto-sink.md":        1,
}

var (
	// A page names a file on a separate line before the file's text.
	shownFile = regexp.MustCompile("(?ms)^`([a-z_/]+\\.(?:go|toml))`:\n\n```(go|diff|conf)\n(.*?)^```$")
	shellText = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
)

// allTests makes TestHowtos run the tests of all packages.
var allTests = flag.Bool("whole", false, "run all tests after following the pages, not only those that depend on registered names")

// registryReaders lists the packages whose tests read all registered names or the
// whole tree. Tests of other packages do not depend on registered names, so they need
// not run again after a page was followed.
var registryReaders = []string{
	"./configs/...", "./docs", "./cli/run", "./internal/accept", "./env", "./env/supervise", "./reward", "./agent", "./algo/advantage", "./algo/loss",
	"./algo/track", "./agent/llm/model", "./data/...",
}

// TestHowtos follows all pages in one copy of the tree: it writes the files that
// they show, counts them, runs their commands, and then the short tests of the
// packages that read the registries.
func TestHowtos(t *testing.T) {
	if testing.Short() {
		t.Skip("the test compiles a copy of the tree")
	}
	root := copyTree(t)
	for page, most := range howtos {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if n := follow(t, root, string(text)); n > most {
			t.Errorf("%s: %d files, want at most %d", page, n, most)
		}
		if lines := strings.Count(string(text), "\n"); lines > 200 {
			t.Errorf("%s has %d lines, want at most 200", page, lines)
		}
	}
	for page := range howtos {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		commands := 0
		for _, m := range shellText.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(m[1]) {
				args, ok := strings.CutPrefix(strings.TrimSpace(line), "go test ")
				if !ok {
					t.Errorf("%s: this test cannot run %q, which is not a go test command", page, line)
					continue
				}
				commands++
				if out := goTest(t, root, append([]string{"-v"}, strings.Fields(args)...)...); !strings.Contains(out, "--- PASS") {
					t.Errorf("%s: %q runs no test:\n%s", page, line, out)
				}
			}
		}
		if commands == 0 {
			t.Errorf("%s gives no command", page)
		}
	}
	packages := registryReaders
	if *allTests {
		packages = []string{"./..."}
	}
	goTest(t, root, append([]string{"-short"}, packages...)...)
}

// copyTree copies the files of the repository that git does not ignore, and
// links build, which holds the native libraries.
func copyTree(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Skipf("git ls-files: %v", err)
	}
	dir := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		from := filepath.Join(root, name)
		st, err := os.Lstat(from)
		if err != nil || !st.Mode().IsRegular() {
			continue // deleted and not yet committed, or a link
		}
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), b, st.Mode())
	}
	if err := os.Symlink(filepath.Join(root, "build"), filepath.Join(dir, "build")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path string, b []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, mode.Perm()); err != nil {
		t.Fatal(err)
	}
}

// follow writes the files that a page shows and returns their number, without
// tests.
func follow(t *testing.T, root, page string) int {
	t.Helper()
	files := 0
	for _, m := range shownFile.FindAllStringSubmatch(page, -1) {
		path, kind, text := filepath.Join(root, m[1]), m[2], m[3]
		old, err := os.ReadFile(path)
		switch {
		case kind == "diff" && err != nil:
			t.Fatal(err)
		case kind == "diff":
			text = changed(t, m[1], string(old), text)
		case err == nil && string(old) != text:
			t.Errorf("%s exists: the example would replace it", m[1])
		}
		if strings.HasSuffix(path, ".go") {
			if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
				t.Errorf("%s is not formatted by gofmt: %v", m[1], err)
			}
		}
		if !strings.HasSuffix(path, "_test.go") {
			files++
		}
		write(t, path, []byte(text), 0o644)
	}
	return files
}

// changed replaces the lines of a diff that begin with - by those that begin
// with +. The file must contain them exactly once.
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
			t.Fatalf("got line %q in a diff, want one that begins with - or +", line)
		}
	}
	if strings.Contains(text, now.String()) && !strings.Contains(text, old.String()) {
		return text // the change has been made already
	}
	if n := strings.Count(text, old.String()); n != 1 {
		t.Fatalf("%s contains the lines that the page changes %d times, want once:\n%s", name, n, old.String())
	}
	return strings.Replace(text, old.String(), now.String(), 1)
}

// goTest runs go test in root and returns its output. With -trimpath,
// copies in other folders share the build cache.
func goTest(t *testing.T, root string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"test", "-trimpath", "-count=1"}, args...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("go test %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
