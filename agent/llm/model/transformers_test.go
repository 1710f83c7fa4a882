package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/torch"
)

// opened is the output of testdata/open_saved.py.
type opened struct {
	LogProbs []float64
	TextIDs  []int32 `json:"text_ids"`
	Chat     string
	Theta    float64
	Scaling  map[string]any
	DType    string
	EOS      []int32
	Tied     bool
}

// openWithTokenizer opens a model of testdata. A model without a tokenizer gets
// the tokenizer of llama-tied.
func openWithTokenizer(t *testing.T, th *torch.Thread, name string) *Bundle {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	b, err := Open(context.Background(), th, path, Options{})
	if errors.Is(err, fs.ErrNotExist) {
		m := openTiny(t, th, name, torch.Float32)
		b = &Bundle{Model: m, Generation: generationFromConfig(m.Config)}
		if b.Tokenizer, err = tokenizer.Load(filepath.Join("testdata", "llama-tied")); err == nil {
			b.TokenizerConfig, err = tokenizer.LoadConfig(filepath.Join("testdata", "llama-tied"))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// TestSavedOpensInTransformers saves models, opens the folders with transformers
// and compares the log-probs.
func TestSavedOpensInTransformers(t *testing.T) {
	python, err := filepath.Abs(filepath.Join("..", "..", "..", "build", "peer", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); errors.Is(err, fs.ErrNotExist) {
		t.Skip("transformers is not in build/peer; ./build.sh peer installs it")
	}
	const text = "move up 12 times; héllo <|im_end|>\n"
	ids := []int32{1, 17, 20, 3, 57, 58, 59, 50, 2, 1, 40, 33, 5, 14, 60, 61}
	ctx := context.Background()
	th := newThread(t)

	type saved struct {
		name string
		b    *Bundle
		dt   torch.DType
		want []float32
	}
	var all []saved
	var folders []string
	for _, name := range []string{"llama", "llama-linear", "llama-tied", "qwen2", "qwen3", "gguf/llama-q8_0.gguf"} {
		b := openWithTokenizer(t, th, name)
		want, err := b.Model.LogProbs(ctx, 1, ids)
		if err != nil {
			t.Fatal(err)
		}
		s := saved{name, b, torch.Float32, want[0]}
		if name == "llama-tied" { // the weights of llama-tied are exact in bfloat16
			s.dt = torch.BFloat16
		}
		dir := filepath.Join(t.TempDir(), "saved")
		if err := b.Save(ctx, dir, s.dt); err != nil {
			t.Fatal(err)
		}
		all, folders = append(all, s), append(folders, dir)
	}
	question, err := json.Marshal(map[string]any{"folders": folders, "ids": ids, "text": text})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, filepath.Join("testdata", "open_saved.py"))
	cmd.Stdin = bytes.NewReader(question)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("transformers: %v\n%s", err, stderr.Bytes())
	}
	answers := json.NewDecoder(bytes.NewReader(out))
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			var got opened
			if err := answers.Decode(&got); err != nil {
				t.Fatal(err)
			}
			if d := maxDiff(t, s.want, got.LogProbs); !(d <= tolerance) {
				t.Errorf("log-probs differ by %.2g from transformers", d)
			}
			if d := cmp.Diff(s.b.Tokenizer.Encode(text, tokenizer.Options{AddSpecial: true}), got.TextIDs); d != "" {
				t.Errorf("ids (-ours +transformers)\n%s", d)
			}
			c := s.b.Model.Config
			if got.Theta != c.RopeTheta || got.DType != s.dt.String() || got.Tied != c.TieWordEmbeddings {
				t.Errorf("theta %v, dtype %s, tied %v; want %v, %s, %v", got.Theta, got.DType, got.Tied, c.RopeTheta, s.dt, c.TieWordEmbeddings)
			}
			scaling := map[string]any{}
			for k, v := range c.ropeScaling() {
				switch v := v.(type) {
				case float:
					scaling[k] = float64(v)
				case int:
					scaling[k] = float64(v)
				default:
					scaling[k] = v
				}
			}
			if d := cmp.Diff(scaling, got.Scaling); d != "" {
				t.Errorf("scaling (-ours +transformers)\n%s", d)
			}
			if d := cmp.Diff(s.b.EOSTokenIDs(), got.EOS); d != "" {
				t.Errorf("EOS token ids (-ours +transformers)\n%s", d)
			}
			if want := "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n"; got.Chat != want {
				t.Errorf("a chat is %q, want %q", got.Chat, want)
			}
		})
	}
}
