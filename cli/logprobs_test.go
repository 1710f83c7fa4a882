package cli

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
)

// TestLogprobsInterrupted checks that Ctrl-C ends the command while it waits for standard input.
func TestLogprobsInterrupted(t *testing.T) {
	ts := newTestState(t, "model", "logprobs", "--model", copyTinyModel(t), "--device", "cpu")
	in, user := io.Pipe()
	ts.Stdin = in
	defer user.Close()
	code := make(chan int)
	go func() { code <- Main(ts.State) }()
	if _, err := io.WriteString(user, `{"ids":[1,2,3]}`+"\n"); err != nil {
		t.Fatal(err)
	}
	// The line has been read, so the command handles signals.
	ts.signals <- os.Interrupt
	if got := <-code; got != int(errext.Interrupted) {
		t.Errorf("exit code %d, want %d\n%s", got, errext.Interrupted, ts.err)
	}
}

func TestEachLine(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ts := newTestState(t)
	var got []string
	each := func(line []byte) error { got = append(got, string(line)); return nil }
	ts.Stdin = strings.NewReader("a\n\nbc")
	if err := ts.eachLine(ctx, 1<<20, each); err != nil || strings.Join(got, "|") != "a||bc" {
		t.Errorf("%q, %v", got, err)
	}
	ts.Stdin = strings.NewReader(strings.Repeat("x", 1<<17))
	if err := ts.eachLine(ctx, 1<<16, each); err == nil || run.CodeOf(ctx, err) != errext.Input {
		t.Errorf("error for a line that is too long: %v", err)
	}
}

// TestQuietModels runs the commands that show progress themselves without it.
func TestQuietModels(t *testing.T) {
	dir, model := t.TempDir(), copyTinyModel(t)
	for _, args := range [][]string{
		{"model", "logprobs", "--model", model, "--device", "cpu"},
		{"model", "convert", model, "copy"},
	} {
		if code, _, stderr := inProcess(t, dir, append(args, "--quiet")...); code != 0 || stderr != "" {
			t.Errorf("%q: exit code %d, stderr %q", args, code, stderr)
		}
	}
}

// TestLogprobsOfBrokenModel checks that NaN weights are an error of the model.
func TestLogprobsOfBrokenModel(t *testing.T) {
	dir := copyTinyModel(t)
	path := filepath.Join(dir, "model.safetensors")
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 8 + int(binary.LittleEndian.Uint64(file)); i < len(file); i++ {
		file[i] = 0xFF // a number with all bits set is NaN in every format
	}
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mode := range [][]string{nil, {"--decode"}} {
		ts := newTestState(t, append([]string{"model", "logprobs", "--model", dir, "--device", "cpu"}, mode...)...)
		ts.Stdin = strings.NewReader(`{"ids":[1,2,3]}` + "\n")
		if code := Main(ts.State); code != int(errext.Model) {
			t.Errorf("%v: exit code %d, want %d", mode, code, errext.Model)
		}
		mustContain(t, "the error", ts.err.String(), "line 1: the log-prob of token 1 is NaN", "checkpoint")
	}
}

// TestLogprobsWithoutTokenizer checks that a model without a tokenizer scores ids, and that text is an error.
func TestLogprobsWithoutTokenizer(t *testing.T) {
	dir := copyTinyModel(t)
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ts := newTestState(t, "model", "logprobs", "--model", dir, "--device", "cpu")
	ts.Stdin = strings.NewReader(`{"ids":[1,2,3]}` + "\n" + `{"text":"Hello"}` + "\n")
	if code := Main(ts.State); code != int(errext.Input) {
		t.Errorf("exit code %d, want %d for the second line", code, errext.Input)
	}
	mustContain(t, "stdout", ts.out.String(), `"ids":[1,2,3]`)
	mustContain(t, "the error", ts.err.String(), "line 2: ", "tokenizer", "give ids", "tokenizer.json")
}

// TestLogprobsGoldens compares the log-probs of a tiny model, with and without
// --decode, with the numbers of transformers.
func TestLogprobsGoldens(t *testing.T) {
	var golden struct {
		Sequences []struct {
			IDs      []int32
			LogProbs []float64
		}
	}
	dir := copyTinyModel(t)
	if err := json.Unmarshal(read(t, dir, "golden.json"), &golden); err != nil {
		t.Fatal(err)
	}
	for _, mode := range [][]string{nil, {"--decode"}} {
		ts := newTestState(t, append([]string{"model", "logprobs", "--model", dir, "--device", "cpu"}, mode...)...)
		var question strings.Builder
		for _, seq := range golden.Sequences {
			line, err := json.Marshal(map[string]any{"ids": seq.IDs})
			if err != nil {
				t.Fatal(err)
			}
			question.Write(append(line, '\n'))
		}
		ts.Stdin = strings.NewReader(question.String())
		if code := Main(ts.State); code != 0 {
			t.Fatalf("%v: exit code %d\n%s", mode, code, ts.err)
		}
		answers := json.NewDecoder(strings.NewReader(ts.out.String()))
		for i, seq := range golden.Sequences {
			var got scored
			if err := answers.Decode(&got); err != nil {
				t.Fatal(err)
			}
			if len(got.IDs) != len(seq.IDs) || len(got.LogProbs) != len(seq.LogProbs) {
				t.Fatalf("%v: sequence %d: %d ids, %d log-probs; want %d, %d", mode, i, len(got.IDs), len(got.LogProbs), len(seq.IDs), len(seq.LogProbs))
			}
			for j, want := range seq.LogProbs {
				if d := float64(got.LogProbs[j]) - want; !(d <= 1e-4 && d >= -1e-4) {
					t.Errorf("%v: sequence %d: log-prob %d differs by %.2g", mode, i, j, d)
				}
			}
		}
		if answers.More() {
			t.Errorf("%v: the output has more lines than the golden file", mode)
		}
	}
}
