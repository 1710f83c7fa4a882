package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

func TestComplete(t *testing.T) {
	for _, tt := range []struct {
		line        string
		has, hasNot []string
	}{
		{"", []string{"train", "env", "version"}, []string{"list", "--device"}},
		{"env ", []string{"list", "serve"}, []string{"train"}},
		{"train --dev", []string{"--device"}, []string{"--set", "train"}},
		{"train run.toml --se", []string{"--set"}, []string{"--device"}},
		{"env serve --po", []string{"--port"}, nil},
		{"train run.toml ", nil, []string{"train", "run.toml"}}, // the shell completes files
		{"report --html ", nil, []string{"--html", "train"}},
		{"train --quiet --se", []string{"--set"}, nil},
		{"train -", []string{"--set", "--help"}, []string{"-h", "--h"}},
		{"--ver", []string{"--version"}, []string{"--help"}},
	} {
		code, out, stderr := inProcess(t, t.TempDir(), append(strings.Split(tt.line, " "), completionFlag)...)
		if code != 0 || stderr != "" {
			t.Errorf("%q: exit code %d, %s", tt.line, code, stderr)
		}
		var words []string
		for line := range strings.Lines(out) {
			word, describe, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if describe == "" {
				t.Errorf("%q: %s has no description", tt.line, word)
			}
			words = append(words, word)
		}
		for _, w := range tt.has {
			if !slices.Contains(words, w) {
				t.Errorf("%q: %q lacks %s", tt.line, words, w)
			}
		}
		for _, w := range tt.hasNot {
			if slices.Contains(words, w) {
				t.Errorf("%q: %q contains %s", tt.line, words, w)
			}
		}
	}
}

// TestCompletionScripts checks the scripts in the shells that are installed.
func TestCompletionScripts(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// testscript.Main runs the program if the test binary is called openmanus.
	if err := os.Symlink(self, filepath.Join(dir, "openmanus")); err != nil {
		t.Fatal(err)
	}
	for shell, script := range map[string]string{
		// bash calls the function with the words in COMP_WORDS.
		"bash": `source "$1"
COMP_WORDS=(openmanus env se); COMP_CWORD=2; _openmanus; printf '%s\n' "${COMPREPLY[@]}"
COMP_WORDS=(openmanus train --devi); COMP_CWORD=2; _openmanus; printf '%s\n' "${COMPREPLY[@]}"
COMP_WORDS=(openmanus report --html ''); COMP_CWORD=3; _openmanus; printf '%s\n' "${COMPREPLY[@]}"`,
		"fish": `source $argv[1]; complete --do-complete "openmanus env se"; complete --do-complete "openmanus train --devi"
complete --do-complete "openmanus report --html "`,
		// zsh's completion needs a terminal. compadd, to which _describe passes the words, prints them here.
		"zsh": `autoload -Uz compinit; compinit -D -u; source "$1"
_describe() { print -l -- "${list[@]}" }
words=(openmanus env se); CURRENT=3; _openmanus
words=(openmanus train --devi); CURRENT=3; _openmanus`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("%s is not installed", shell)
			}
			_, text, _ := inProcess(t, dir, "completion", shell)
			file := filepath.Join(dir, "script."+shell)
			writeFile(t, dir, filepath.Base(file), text)
			args := []string{"-c", script, shell, file}
			if shell == "fish" {
				args = []string{"--no-config", "-c", script, file}
			}
			cmd := exec.Command(path, args...)
			cmd.Dir = dir // whose files have no names of commands
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			mustContain(t, shell, string(out), "serve", "--device")
			if strings.Contains(string(out), "rollout") {
				t.Errorf("%s offers words that do not fit:\n%s", shell, out)
			}
		})
	}
	if code, _, _ := inProcess(t, dir, "completion", "tcsh"); code != int(errext.Usage) {
		t.Errorf("exit code %d for an unknown shell", code)
	}
}

// TestManualPage checks the page with mandoc, if it is installed.
func TestManualPage(t *testing.T) {
	code, page, stderr := inProcess(t, t.TempDir(), "man")
	if code != 0 {
		t.Fatal(stderr)
	}
	mustContain(t, "the page", page, `.TH "OPENMANUS" "1"`, "train", "rollout")
	if _, err := exec.LookPath("mandoc"); err != nil {
		t.Skip("mandoc is not installed")
	}
	cmd := exec.Command("mandoc", "-T", "lint", "-W", "error")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
