package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// Patterns of commands in the code of the documentation. A command is inline code, or a line of a fenced block without
// the trailing comment.
var (
	fenced      = regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```")
	inline      = regexp.MustCompile("`([^`\n]+)`((?:,? (?:and )?`[a-z]+`)*)")
	word        = regexp.MustCompile("`([a-z]+)`")
	commandLine = regexp.MustCompile(`(?m)(?:^|^(?:nohup|srun|srun --kill-on-bad-exit) |[|&;] *|build/|^ExecStart=/usr/local/bin/)openmanus ([^#|&;\n]+)`)
)

var groups = []string{"model", "env", "config", "data", "cache", "reward"}

// documentedCommands returns the command lines of a page, without the name of the program. "`openmanus env list`,
// `serve`" has two commands. "`config show`" is a command because "config" is a group of commands.
func documentedCommands(page string) []string {
	var found []string
	for _, m := range fenced.FindAllStringSubmatch(page, -1) {
		for _, c := range commandLine.FindAllStringSubmatch(strings.ReplaceAll(m[2], "\\\n", " "), -1) {
			found = append(found, c[1])
		}
	}
	for _, m := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		code, ok := strings.CutPrefix(m[1], "openmanus ")
		words := strings.Fields(code)
		if !ok {
			if len(words) == 2 && slices.Contains(groups, words[0]) {
				found = append(found, code)
			}
			continue
		}
		found = append(found, code)
		if len(words) > 1 && slices.Contains(groups, words[0]) {
			for _, more := range word.FindAllStringSubmatch(m[2], -1) {
				found = append(found, words[0]+" "+more[1])
			}
		}
	}
	for i := range found {
		found[i] = strings.TrimSpace(found[i])
	}
	return found
}

// commandOf splits a documented command line into the command and its arguments. Brackets mark optional parts.
func commandOf(line string) (command string, args []string) {
	args = strings.Fields(strings.NewReplacer("[", "", "]", "", "'", "", `"`, "").Replace(line))
	n := 1
	if len(args) > 1 && (slices.Contains(groups, args[0]) || args[1] == "compare" && (args[0] == "eval" || args[0] == "runs")) {
		n = 2
	}
	return strings.Join(args[:n], " "), args[n:]
}

func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, file := range append(files, "../README.md", "../CONTRIBUTING.md") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(b)
	}
	return texts
}

// TestDocumentedCommands runs every documented command in an empty folder and checks its output. The test replaces
// placeholders and shortens training.
func TestDocumentedCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	var lines []string
	for _, page := range pages(t) {
		lines = append(lines, documentedCommands(page)...)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if len(lines) < 12 {
		t.Fatalf("only %d commands found in the documentation: %q", len(lines), lines)
	}
	tiny := tinyModel(t)
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			command, args := commandOf(line)
			if command == "env check" {
				t.Parallel() // it watches an idle connection for seconds
			}
			if command == "env serve" {
				checkServe(t, args)
				return
			}
			if command == "serve" {
				checkServeModel(t, tiny, args)
				return
			}
			if command == "train" && slices.Contains(args, "--serve") {
				checkTrainServe(t, tiny, args)
				return
			}
			if command == "env up" {
				checkUp(t, args)
				return
			}
			if command == "env proxy" {
				checkProxy(t, args)
				return
			}
			how, ok := documented[command]
			if !ok {
				t.Fatalf("the documentation names `openmanus %s`, which this test cannot run: add it to documented", line)
			}
			r := &docRun{dir: t.TempDir(), args: args}
			if how.complete != nil {
				how.complete(t, r, tiny)
			}
			ts := newTestState(t, append(strings.Fields(command), r.args...)...)
			ts.Dir, ts.Stdin, ts.Getenv = r.dir, strings.NewReader(r.stdin), func(name string) string {
				if value, ok := r.env[name]; ok {
					return value
				}
				return offline(name)
			}
			code := Main(ts.State)
			if slices.Contains(args, "cuda") && code == int(errext.Native) && strings.Contains(ts.err.String(), "cuda") {
				t.Skip("this machine has no GPU")
			}
			if code != 0 {
				t.Fatalf("%q: exit code %d\n%s", ts.Args, code, ts.err.String())
			}
			r.stdout = ts.out.String()
			how.check(t, r)
			if command == "train" {
				checkNext(t, r)
			}
		})
	}
}

// TestDocumentedConfigurations checks that every configuration in the documentation is valid.
func TestDocumentedConfigurations(t *testing.T) {
	n := 0
	for name, page := range pages(t) {
		for _, m := range fenced.FindAllStringSubmatch(page, -1) {
			if m[1] != "toml" {
				continue
			}
			n++
			if _, err := schema.Load(name, []byte(m[2]), nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if n == 0 {
		t.Error("no configuration was found in the documentation")
	}
}

func TestDocumentedCommandsAreFound(t *testing.T) {
	page := "Say `openmanus env list`, `serve` and then `config show`, not `env.name`.\n" +
		"```sh\nopenmanus train my.toml --set a.b=1   # a comment\necho x | openmanus model logprobs --model DIR\nnohup openmanus view d.jsonl &\nExecStart=/usr/local/bin/openmanus runs\nbuild/openmanus eval \\\n  --json\n```\n"
	got := documentedCommands(page)
	want := []string{"train my.toml --set a.b=1", "model logprobs --model DIR", "view d.jsonl", "runs", "eval    --json", "env list", "env serve", "config show"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
