package model

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
)

func TestOpenGGUFMatchesTransformers(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"llama-f32", "llama-f16", "llama-bf16", "llama-q8_0", "llama-q4_0", "llama-q4_1"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "gguf", name+".gguf")
			b, err := Open(ctx, newThread(t), path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			checkGolden(t, b.Model, strings.TrimSuffix(path, ".gguf")+".json")
			if got := b.EOSTokenIDs(); !slices.Equal(got, []int32{2}) {
				t.Errorf("EOSTokenIDs: got %v", got)
			}
			if !strings.Contains(b.ChatTemplate(), "<|im_start|>") {
				t.Errorf("ChatTemplate: got %q", b.ChatTemplate())
			}
			if b.TokenizerConfig.EOS != "<|im_end|>" || b.TokenizerConfig.BOS != "<|im_start|>" || b.TokenizerConfig.Pad != "<|pad|>" {
				t.Errorf("TokenizerConfig: got %+v", b.TokenizerConfig)
			}
		})
	}
	// These files have no vocabulary, so only the weights are compared.
	for _, name := range []string{"qwen2-q8_0", "qwen3-q8_0"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "gguf", name+".gguf")
			checkGolden(t, openWeights(t, path), strings.TrimSuffix(path, ".gguf")+".json")
		})
	}
}

// checkGolden compares the packed and the decoded log-probs of a model with a golden.
func checkGolden(t *testing.T, m *Model, path string) {
	t.Helper()
	g := readJSON[golden](t, path)
	for _, seq := range g.Sequences {
		got, err := m.LogProbs(context.Background(), 1, seq.IDs)
		if err != nil {
			t.Fatal(err)
		}
		if d := maxDiff(t, got[0], seq.LogProbs); !(d <= tolerance) {
			t.Errorf("packed log-probs differ by %.2g from the golden", d)
		}
		cached, err := m.DecodeLogProbs(context.Background(), 1, seq.IDs, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d := maxDiff(t, cached, seq.LogProbs); !(d <= tolerance) {
			t.Errorf("cached log-probs differ by %.2g from the golden", d)
		}
	}
}

func TestSaveAndOpenAgain(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	b, err := Open(ctx, th, filepath.Join("testdata", "llama-tied"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	want, err := b.Model.Hash(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} { // both dtypes represent the stored numbers exactly
		t.Run(dt.String(), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "saved here")
			if err := b.Save(ctx, dir, dt); err != nil {
				t.Fatal(err)
			}
			reopened, err := Open(ctx, th, dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer reopened.Close()
			got, err := reopened.Model.Hash(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("hash of the weights: got %s, want %s", got, want)
			}
			config := reopened.Model.Config
			config.DType = b.Model.Config.DType // DType may differ: it is the dtype in which the model was saved
			if d := cmp.Diff(b.Model.Config, config); d != "" {
				t.Errorf("configuration (-saved +opened)\n%s", d)
			}
			if d := cmp.Diff(b.Generation, reopened.Generation); d != "" {
				t.Errorf("generation configuration (-saved +opened)\n%s", d)
			}
			if d := cmp.Diff(b.TokenizerConfig, reopened.TokenizerConfig); d != "" {
				t.Errorf("tokenizer configuration (-saved +opened)\n%s", d)
			}
			if !bytes.Equal(reopened.Tokenizer.RawJSON(), b.Tokenizer.RawJSON()) {
				t.Error("the tokenizer changed")
			}
			names := listDir(t, dir)
			if d := cmp.Diff([]string{"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}, names); d != "" {
				t.Errorf("files (-want +got)\n%s", d)
			}
		})
	}
}

// TestGGUFToFolder checks that a GGUF file can be opened and saved as a folder.
func TestGGUFToFolder(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	b, err := Open(ctx, th, filepath.Join("testdata", "gguf", "llama-q4_1.gguf"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir := t.TempDir()
	if err := b.Save(ctx, dir, torch.Float32); err != nil {
		t.Fatal(err)
	}
	reopened, err := Open(ctx, th, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer reopened.Close()
	checkGolden(t, reopened.Model, filepath.Join("testdata", "gguf", "llama-q4_1.json"))
	if b.ChatTemplate() != reopened.ChatTemplate() {
		t.Error("the chat template changed")
	}
	const text = "move up 12 times; héllo <|im_end|>\n"
	if d := cmp.Diff(b.Tokenizer.Encode(text, tokenizer.Options{}), reopened.Tokenizer.Encode(text, tokenizer.Options{})); d != "" {
		t.Errorf("tokens (-gguf +folder)\n%s", d)
	}
}

func listDir(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// copyTiny copies a tiny model to a temporary folder, which the test may change.
func copyTiny(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// rewrite calls the function change on the tensors of a folder and stores the result.
func rewrite(t *testing.T, dir string, change func(map[string]safetensors.Info, map[string][]byte), o safetensors.WriteOptions) {
	t.Helper()
	f, err := safetensors.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	infos, data := map[string]safetensors.Info{}, map[string][]byte{}
	for _, n := range f.Names() {
		info, raw, err := f.Tensor(n)
		if err != nil {
			t.Fatal(err)
		}
		infos[n], data[n] = info, slices.Clone(raw)
	}
	f.Close()
	change(infos, data)
	if err := os.Remove(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	var specs []safetensors.Spec
	for n, info := range infos {
		specs = append(specs, safetensors.Spec{Name: n, Info: info})
	}
	if err := safetensors.WriteFolder(dir, specs, func(i int, w io.Writer) error {
		_, err := w.Write(data[specs[i].Name])
		return err
	}, o); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	type tensors = map[string]safetensors.Info
	type bytesOf = map[string][]byte
	const gate = "model.layers.1.mlp.gate_proj.weight"
	tests := []struct {
		name   string
		change func(tensors, bytesOf)
		config func(map[string]any)
		want   string
	}{
		{name: "missing tensor", change: func(i tensors, _ bytesOf) { delete(i, gate) }, want: "tensor " + gate + " is missing"},
		{name: "unexpected tensor", change: func(i tensors, b bytesOf) {
			i["model.layers.2.mlp.gate_proj.weight"], b["model.layers.2.mlp.gate_proj.weight"] = i[gate], b[gate]
		}, want: "tensor model.layers.2.mlp.gate_proj.weight is unexpected"},
		{name: "wrong shape", change: func(i tensors, _ bytesOf) {
			info := i[gate]
			info.Shape = []int{16, 64}
			i[gate] = info
		}, want: "tensor " + gate + " has shape [16 64], want [32 32]"},
		{name: "integers", change: func(i tensors, _ bytesOf) {
			info := i[gate]
			info.DType = safetensors.I16
			i[gate] = info
		}, want: "stored as I16"},
		{name: "configuration of another model", config: func(c map[string]any) { c["num_hidden_layers"] = 3 },
			want: "tensor model.layers.2.input_layernorm.weight is missing"},
		{name: "untied without a head", config: func(c map[string]any) { c["tie_word_embeddings"] = false },
			want: "tensor lm_head.weight is missing"},
		{name: "tied with another head", change: func(i tensors, b bytesOf) {
			const embed = "model.embed_tokens.weight"
			i["lm_head.weight"] = i[embed]
			b["lm_head.weight"] = slices.Clone(b[embed])
			b["lm_head.weight"][0] ^= 1
		}, want: "lm_head.weight differs"},
		{name: "tokenizer too large", config: func(c map[string]any) { c["vocab_size"] = 287 },
			want: "has shape [288 32], want [287 32]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := copyTiny(t, "llama-tied")
			if tt.change != nil {
				rewrite(t, dir, tt.change, safetensors.WriteOptions{})
			}
			if tt.config != nil {
				editConfig(t, dir, tt.config)
			}
			b, err := Open(context.Background(), newThread(t), dir, Options{})
			if err == nil {
				b.Close()
				t.Fatal("Open: no error")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not contain %q", err, tt.want)
			}
		})
	}
}

func editConfig(t *testing.T, dir string, change func(map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	c := readJSON[map[string]any](t, path)
	change(c)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestOpenAccepts checks that Open accepts unusual layouts that are valid.
func TestOpenAccepts(t *testing.T) {
	const embed = "model.embed_tokens.weight"
	tests := []struct {
		name   string
		change func(map[string]safetensors.Info, map[string][]byte)
		o      safetensors.WriteOptions
	}{
		{"shards", func(map[string]safetensors.Info, map[string][]byte) {}, safetensors.WriteOptions{MaxShardBytes: 10_000}},
		{"a head equal to the tied embedding", func(i map[string]safetensors.Info, b map[string][]byte) {
			i["lm_head.weight"], b["lm_head.weight"] = i[embed], b[embed]
		}, safetensors.WriteOptions{}},
		{"old frequencies", func(i map[string]safetensors.Info, b map[string][]byte) {
			const name = "model.layers.0.self_attn.rotary_emb.inv_freq"
			i[name], b[name] = safetensors.Info{DType: safetensors.F32, Shape: []int{4}}, make([]byte, 16)
		}, safetensors.WriteOptions{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := copyTiny(t, "llama-tied")
			rewrite(t, dir, tt.change, tt.o)
			b, err := Open(context.Background(), newThread(t), dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			checkGolden(t, b.Model, filepath.Join("testdata", "llama-tied", "golden.json"))
		})
	}
}

func TestDescribe(t *testing.T) {
	for _, tt := range []struct {
		path, format, kind string
	}{
		{"llama-tied", "safetensors", "BF16"}, {"gguf/llama-q8_0.gguf", "gguf", "Q8_0"},
	} {
		d, err := Describe(filepath.Join("testdata", filepath.FromSlash(tt.path)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Format != tt.format || d.TensorTypes[tt.kind] == 0 || d.Tokens != 288 || d.Parameters != 21664 || d.ChatTemplate == "" || d.WeightBytes == 0 {
			t.Errorf("Describe(%s) = %+v", tt.path, d)
		}
	}
	if _, err := Describe(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "neither a config.json nor a .gguf file") {
		t.Errorf("Describe of an empty folder: got error %v", err)
	}
}
