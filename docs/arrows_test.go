package docs

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const module = "github.com/openmanus/openmanus"

// arrows lists the packages of this module that each package may import. A trailing
// /... stands for a package and all packages below it. The test fails for packages
// without a line and for imports that their line does not list. docs/architecture.md
// describes the structure.
var arrows = map[string]string{
	".":   "cli",
	"cli": "cli/dashboard cli/doctor cli/pace cli/run configs/... algo/... agent/... env/... reward/... data/... torch/... internal/...",

	"cli/pace":      "algo algo/track",
	"cli/dashboard": "agent/rollout algo algo/report algo/rundir algo/track cli/pace configs data data/table data/view env/listen",

	"cli/launch": "internal/errext internal/payload",

	"cli/run": "configs configs/vocabulary algo/... agent/... env/... reward/... data/... torch/... internal/errext",

	"cli/doctor": "env/supervise internal/textwidth torch",

	"configs":            "data data/registry",
	"configs/vocabulary": "agent agent/llm/model algo/advantage algo/correction algo/kl algo/loss algo/track data/registry data/table env env/action env/builtin reward",
	"configs/hydra":      "configs data/registry",

	"algo":            "algo/... agent/... env/... reward data/... torch/...",
	"algo/advantage":  "data/...",
	"algo/correction": "algo/track data/...",
	"algo/curriculum": "algo/track",
	"algo/kl":         "data/... torch",
	"algo/plan":       "algo/learner agent/llm/engine agent/llm/generate agent/llm/model data torch/... internal/errext",
	"algo/loss":       "data/registry torch",
	"algo/ranks":      "internal/errext torch torch/dist",
	"algo/track":      "data/...",
	"algo/learner":    "algo/kl algo/loss algo/track agent/llm/chat agent/llm/model agent/llm/tokenizer reward data torch/...",
	"algo/report":     "agent/eval algo/rundir algo/rundir/checkpoint algo/track data/dump internal/plainjson internal/textwidth",
	"algo/rundir":     "algo/curriculum algo/rundir/checkpoint algo/track data/...",

	"algo/rundir/checkpoint": "data/crash internal/filelock",

	"agent":               "agent/llm/engine env env/action reward data/...",
	"agent/replay":        "agent agent/llm/engine agent/text env data/...",
	"agent/rollout":       "agent agent/llm/engine env env/pool data/...",
	"agent/llm/engine":    "data/...",
	"agent/eval":          "env/pool data internal/textwidth",
	"agent/text":          "agent/llm/engine data",
	"agent/openai":        "agent/llm/engine agent/text data data/transport internal/backoff",
	"agent/remote":        "agent/llm/chat agent/llm/engine agent/llm/serve agent/llm/tokenizer agent/rollout data",
	"agent/llm/serve":     "agent/llm/chat agent/llm/engine agent/llm/tokenizer data",
	"agent/llm/generate":  "agent/llm/engine agent/llm/model torch/...",
	"agent/llm/model":     "agent/llm/gguf agent/llm/tokenizer agent/llm/chat data/registry torch/...",
	"agent/llm/gguf":      "agent/llm/tokenizer torch/mmap",
	"agent/llm/hub":       "data/transport internal/backoff internal/errext internal/filelock",
	"agent/llm/chat":      "agent/llm/tokenizer data",
	"agent/llm/tokenizer": "internal/plainjson",

	"agent/openai/openaitest": "",
	"agent/llm/hub/hubtest":   "",

	"env":                   "env/action data/... internal/backoff",
	"env/action":            "internal/plainjson",
	"env/builtin":           "env env/fault env/listen data/... internal/plainjson",
	"env/check":             "env data data/transport",
	"env/envtest":           "",
	"env/fault":             "",
	"env/listen":            "",
	"env/listen/listentest": "internal/freeport",
	"env/pool":              "env data internal/backoff",
	"env/proxy":             "env/fault env/listen data/transport",
	"env/supervise":         "env data/transport internal/backoff",
	"reward":                "data/... reward/mathexpr",
	"reward/external":       "reward data/transport internal/plainjson",
	"reward/mathexpr":       "",

	"data":          "",
	"data/crash":    "",
	"data/registry": "",
	"data/dump":     "data data/crash internal/filelock internal/plainjson",
	"data/table":    "data data/dump data/registry internal/plainjson",
	"data/view":     "data",

	"data/transport":               "",
	"data/transport/transporttest": "",

	"internal/backoff":   "",
	"internal/filelock":  "",
	"internal/freeport":  "",
	"internal/plainjson": "",
	"internal/textwidth": "",
	"internal/payload":   "internal/filelock",
	"internal/release":   "internal/payload",

	"torch":             "",
	"torch/dist":        "torch internal/freeport",
	"torch/nn":          "torch",
	"torch/optim":       "torch torch/dist torch/safetensors torch/shard torch/store",
	"torch/shard":       "torch torch/dist",
	"torch/store":       "torch torch/safetensors",
	"torch/safetensors": "torch/mmap",
	"torch/mmap":        "",
	"torch/torchtest":   "torch",

	"torch/dist/disttest": "torch torch/dist torch/torchtest internal/freeport",

	"internal/errext": "",

	"docs":          "...",
	"docs/pictures": "",
	"bench":         "...",

	"internal/accept":      "...",
	"internal/browsertest": "",
	"internal/process":     "",
	"internal/readertest":  "",
	"internal/site":        "",
}

// pure lists the packages that must build without cgo.
var pure = []string{
	"configs", "configs/hydra", "algo/advantage", "algo/report", "algo/rundir", "algo/rundir/checkpoint", "algo/correction", "algo/curriculum", "algo/track", "agent", "agent/replay",
	"agent/remote", "agent/rollout", "agent/llm/engine", "agent/eval", "agent/openai", "agent/text", "agent/llm/gguf", "agent/llm/hub", "agent/llm/chat", "agent/llm/serve", "agent/llm/tokenizer",
	"env", "env/action", "env/pool", "env/builtin", "reward", "reward/external", "reward/mathexpr", "data", "data/crash", "data/dump", "data/registry", "data/table",
	"data/view", "data/transport", "internal/errext", "torch/mmap", "torch/safetensors", "env/check", "env/fault", "env/listen", "env/proxy", "env/supervise", "internal/backoff", "internal/plainjson", "internal/site", "internal/textwidth",
	"cli/launch", "internal/payload", "internal/release",
}

func TestArrows(t *testing.T) {
	for _, line := range goList(t, "{{.ImportPath}} {{join .Imports \" \"}}") {
		fields := strings.Fields(line)
		pkg, imports := relative(fields[0]), fields[1:]
		allowed, known := arrows[pkg]
		if !known {
			t.Errorf("package %s is missing in the map arrows", pkg)
			continue
		}
		for _, path := range imports {
			if path == "C" || strings.HasPrefix(path, "github.com/wangkuiyi/gotorch") {
				if pkg != "torch" {
					t.Errorf("%s imports %s; only package torch may import it", pkg, path)
				}
				continue
			}
			if !strings.HasPrefix(path, module) {
				continue
			}
			if to := relative(path); !matches(to, strings.Fields(allowed)) {
				t.Errorf("%s imports %s, want only %s", pkg, to, allowed)
			}
		}
	}
}

func TestPurePackagesReachNoNativeCode(t *testing.T) {
	for _, line := range goList(t, "{{.ImportPath}} {{join .Deps \" \"}}") {
		fields := strings.Fields(line)
		if pkg := relative(fields[0]); slices.Contains(pure, pkg) && slices.Contains(fields, module+"/torch") {
			t.Errorf("%s depends on package torch, want no native code", pkg)
		}
	}
}

// noTerminal lists the packages that a program may embed. They must not depend on
// packages for flags or terminals.
var noTerminal = []string{"cli/run", "internal/errext"}

func TestEmbeddedPackagesKnowNoCommandLine(t *testing.T) {
	forbidden := []string{"flag", "github.com/urfave/cli", "github.com/schollz/progressbar", "golang.org/x/term", module + "/cli"}
	for _, line := range goList(t, "{{.ImportPath}} {{join .Deps \" \"}}") {
		fields := strings.Fields(line)
		if !slices.Contains(noTerminal, relative(fields[0])) {
			continue
		}
		for _, path := range fields[1:] {
			if slices.ContainsFunc(forbidden, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/v") }) {
				t.Errorf("%s depends on %s", relative(fields[0]), path)
			}
		}
	}
}

// TestArchitectureNamesPackages checks that architecture.md names every package.
func TestArchitectureNamesPackages(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	named := strings.FieldsFunc(string(text), func(r rune) bool { return r != '/' && r != '_' && !unicode.IsLetter(r) })
	for pkg := range arrows {
		if pkg == "." || pkg == "docs" || strings.Contains(pkg, "/internal/") {
			continue
		}
		if !slices.Contains(named, pkg) && !slices.Contains(named, path.Base(pkg)) {
			t.Errorf("docs/architecture.md does not name package %s", pkg)
		}
	}
}

func goList(t *testing.T, format string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", format, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func relative(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

func matches(pkg string, patterns []string) bool {
	for _, p := range patterns {
		root, below := strings.CutSuffix(p, "/...")
		if p == "..." || pkg == root || below && strings.HasPrefix(pkg, root+"/") {
			return true
		}
	}
	return false
}
