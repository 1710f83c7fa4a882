package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/internal/errext"
)

// TestConvertToGGUF converts a folder to GGUF files and reads them as models.
func TestConvertToGGUF(t *testing.T) {
	dir, tiny := t.TempDir(), tinyModel(t)
	for _, args := range [][]string{{"f32.gguf"}, {"bf16.gguf", "--type", "bf16"}, {"q8_0.gguf", "--type", "q8_0"}} {
		args = append([]string{"model", "convert", "--to", "gguf", tiny}, args...)
		if code, stdout, stderr := inProcess(t, dir, args...); code != 0 || stdout != args[5]+"\n" {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
	sizes := map[string]int64{}
	for _, name := range entries(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		sizes[name] = info.Size()
	}
	if len(sizes) != 3 || sizes["q8_0.gguf"] >= sizes["bf16.gguf"] || sizes["bf16.gguf"] >= sizes["f32.gguf"] {
		t.Errorf("files and sizes: %v", sizes)
	}
	if want, got := logprobsOf(t, dir, tiny), logprobsOf(t, dir, "f32.gguf"); apart(want, got) != 0 {
		t.Errorf("log-probs of the GGUF file differ by %g, want 0", apart(want, got))
	}
	if want, got := logprobsOf(t, dir, tiny), logprobsOf(t, dir, "q8_0.gguf"); !(apart(want, got) <= 0.1) {
		t.Errorf("log-probs of q8_0 differ by %g, want at most 0.1", apart(want, got))
	}
	if code, _, stderr := inProcess(t, dir, "model", "convert", "f32.gguf", "back"); code != 0 {
		t.Errorf("back to a folder: exit code %d\n%s", code, stderr)
	}
	if want, got := logprobsOf(t, dir, tiny), logprobsOf(t, dir, "back"); apart(want, got) != 0 {
		t.Errorf("log-probs of the folder made from the GGUF file differ by %g, want 0", apart(want, got))
	}
}

func TestConvertRefusals(t *testing.T) {
	dir, tiny := t.TempDir(), copyTinyModel(t)
	writeFile(t, dir, "exists.gguf", "x")
	for name, tt := range map[string]struct {
		args []string
		code errext.ExitCode
	}{
		"a .gguf name without --to": {[]string{tiny, "out.gguf"}, errext.Usage},
		"--dtype of a GGUF file":    {[]string{tiny, "out.gguf", "--to", "gguf", "--dtype", "bfloat16"}, errext.Usage},
		"--type of a folder":        {[]string{tiny, "out", "--type", "bf16"}, errext.Usage},
		"an unknown type":           {[]string{tiny, "out.gguf", "--to", "gguf", "--type", "q4_0"}, errext.Usage},
		"an unknown format":         {[]string{tiny, "out.onnx", "--to", "onnx"}, errext.Usage},
		"an existing file":          {[]string{tiny, "exists.gguf", "--to", "gguf"}, errext.Usage},
		"no such folder":            {[]string{tiny, "missing/out.gguf", "--to", "gguf"}, errext.Disk},
		"no such model":             {[]string{"gone", "out.gguf", "--to", "gguf"}, errext.Model},
	} {
		code, stdout, stderr := inProcess(t, dir, append([]string{"model", "convert"}, tt.args...)...)
		if code != int(tt.code) || stdout != "" {
			t.Errorf("%s: exit code %d, want %d\n%s%s", name, code, tt.code, stdout, stderr)
		}
	}
	other := filepath.Join(dir, "other")
	if err := os.CopyFS(other, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(read(t, other, "tokenizer.json")), `"add_prefix_space": false`, `"add_prefix_space": true`, 1)
	writeFile(t, other, "tokenizer.json", text)
	code, _, stderr := inProcess(t, dir, "model", "convert", other, "out.gguf", "--to", "gguf")
	if code != int(errext.Model) {
		t.Errorf("a pre-tokenizer without a name: exit code %d\n%s", code, stderr)
	}
	mustContain(t, "stderr", stderr, "pre-tokenizer")
	if got := entries(t, dir); len(got) != 2 {
		t.Errorf("files: %v, want the two made by the test", got)
	}
}
