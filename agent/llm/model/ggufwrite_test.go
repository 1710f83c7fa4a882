package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/agent/llm/gguf"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/internal/readertest"
	"github.com/openmanus/openmanus/torch"
)

// tinyBundle opens a tiny model with the tokenizer of llama-tied. The vocabulary of
// the other models is smaller, so they are made anew with random weights.
func tinyBundle(t *testing.T, th *torch.Thread, name string) *Bundle {
	t.Helper()
	b, err := Open(t.Context(), th, filepath.Join("testdata", "llama-tied"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if name == "llama-tied" {
		return b
	}
	c, err := readConfig(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	c.VocabSize = b.Model.Config.VocabSize + 5 // rows of the embedding without a token
	m, err := New(t.Context(), th, c, 3, torch.Float32)
	if err != nil {
		t.Fatal(err)
	}
	run(t, th, func(s *torch.Scope) { // norms and biases that differ from their initial values
		for i, p := range m.Params() {
			if len(p.Tensor.Shape()) == 1 {
				s.NoGrad(func() { p.Tensor.Add_(s.RandN(uint64(i), p.Tensor.Shape()...), 0.1) })
			}
		}
	})
	b.Model.Close()
	b.Model, b.Generation = m, generationFromConfig(c)
	return b
}

// writeGGUF writes a model and returns the path.
func writeGGUF(t *testing.T, b *Bundle, typ gguf.Type) string {
	t.Helper()
	var file bytes.Buffer
	written := 0
	if err := b.WriteGGUF(t.Context(), &file, GGUFOptions{Type: typ, Name: "tiny", Progress: func(n int) { written = n }}); err != nil {
		t.Fatal(err)
	}
	if want := len(b.Model.Params()); written < want {
		t.Errorf("the progress ends at %d of %d tensors", written, want)
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGGUFRoundTrip writes models and opens them again: the same weights from F32, the same
// log-probs up to the rounding of the weights from the other types, and the same settings.
func TestGGUFRoundTrip(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	ids := []int32{1, 70, 5, 90, 33, 2, 60, 61, 62, 2}
	for _, name := range tiny {
		for _, tt := range []struct {
			t         gguf.Type
			tolerance float64 // of log-probs
		}{{gguf.F32, 0}, {gguf.BF16, 0.02}, {gguf.Q8_0, 0.02}} {
			t.Run(name+" "+tt.t.String(), func(t *testing.T) {
				b := tinyBundle(t, th, name)
				again, err := Open(ctx, th, writeGGUF(t, b, tt.t), Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer again.Close()
				if tt.t == gguf.F32 {
					want, err := b.Model.Hash(ctx)
					if err != nil {
						t.Fatal(err)
					}
					if got, err := again.Model.Hash(ctx); err != nil || got != want {
						t.Errorf("hash of the weights: %s, %v, want %s", got, err, want)
					}
				}
				want, err := b.Model.LogProbs(ctx, 1, ids)
				if err != nil {
					t.Fatal(err)
				}
				got, err := again.Model.LogProbs(ctx, 1, ids)
				if err != nil {
					t.Fatal(err)
				}
				checkRounding(t, b.Model, again.Model, tt.t)
				for i := range want[0] {
					if name == "llama-tied" && tt.t == gguf.Q8_0 {
						break // its weights are so large that rounding changes log-probs by more than 1
					}
					if d := math.Abs(float64(got[0][i] - want[0][i])); !(d <= tt.tolerance) {
						t.Errorf("log-prob %d differs by %.2g, allowed are %.2g", i, d, tt.tolerance)
					}
				}
				config := again.Model.Config
				config.DType, config.PadTokenID = b.Model.Config.DType, b.Model.Config.PadTokenID // from the tokenizer in a GGUF file
				if config.RopeScaling.Type == "" {
					config.RopeScaling.Type = b.Model.Config.RopeScaling.Type // "" or "default"
				}
				if d := cmp.Diff(b.Model.Config, config); d != "" {
					t.Errorf("configuration (-written +read)\n%s", d)
				}
				wantTokenizer, gotTokenizer := b.TokenizerConfig, again.TokenizerConfig
				wantTokenizer.ModelMaxLength = gotTokenizer.ModelMaxLength // from the configuration in a GGUF file
				if d := cmp.Diff(wantTokenizer, gotTokenizer); d != "" {
					t.Errorf("tokenizer configuration (-written +read)\n%s", d)
				}
				text := "Hello, 123 wörld!<|im_end|>\n\n  x"
				if d := cmp.Diff(b.Tokenizer.Encode(text, tokenizer.Options{}), again.Tokenizer.Encode(text, tokenizer.Options{})); d != "" {
					t.Errorf("ids (-written +read)\n%s", d)
				}
				if d := cmp.Diff(b.EOSTokenIDs(), again.EOSTokenIDs()); d != "" {
					t.Errorf("ids that end a reply (-written +read)\n%s", d)
				}
			})
		}
	}
}

// checkRounding checks that no weight differs by more than half a step of the type. A step of
// Q8_0 is 1/127 of the largest value of 32 neighbours, itself rounded to float16.
func checkRounding(t *testing.T, want, got *Model, typ gguf.Type) {
	t.Helper()
	run(t, want.Thread(), func(*torch.Scope) {
		for i, p := range want.Params() {
			a, b := p.Tensor.To(torch.Float32).ToFloat32s(), got.Params()[i].Tensor.ToFloat32s()
			for j := range a {
				var allowed float64
				switch matrix := len(p.Tensor.Shape()) > 1; {
				case matrix && typ == gguf.BF16:
					allowed = math.Abs(float64(a[j])) * 0x1p-8
				case matrix && typ == gguf.Q8_0:
					at := j / 32 * 32
					allowed = float64(max(slices.Max(a[at:at+32]), -slices.Min(a[at:at+32]))) * (1./254 + 0x1p-11)
				}
				if d := math.Abs(float64(a[j] - b[j])); !(d <= allowed) {
					t.Fatalf("%s: element %d is %v, want %v with an error of at most %g", p.Name, j, b[j], a[j], allowed)
				}
			}
		}
	})
}

// TestGGUFMergesAdapters writes a model with adapters, and compares with the merged model.
func TestGGUFMergesAdapters(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	b := tinyBundle(t, th, "llama-tied")
	if err := b.Model.AddLoRA(ctx, LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj", "down_proj"}}, 1); err != nil {
		t.Fatal(err)
	}
	run(t, th, func(s *torch.Scope) { // the second matrix of an adapter is zero at first
		for i, p := range b.Model.Adapters() {
			s.NoGrad(func() { p.Tensor.Add_(s.RandN(uint64(i), p.Tensor.Shape()...), 0.1) })
		}
	})
	again, err := Open(ctx, th, writeGGUF(t, b, gguf.F32), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := b.Model.Merge(ctx); err != nil {
		t.Fatal(err)
	}
	want, err := b.Model.Hash(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Model.Hash(ctx); err != nil || got != want {
		t.Errorf("hash of the weights: %s, %v, want %s", got, err, want)
	}
}

// TestGGUFReadByPackage reads the files with llama.cpp's Python package: metadata, names,
// shapes and the dequantised values, which must equal the values that this package reads.
func TestGGUFReadByPackage(t *testing.T) {
	readertest.Python(t)
	th := newThread(t)
	for _, tt := range []struct {
		name string
		t    gguf.Type
		want []string // some of the tensors
	}{
		{"llama-tied", gguf.F32, []string{"rope_freqs.weight F32 [4]", "token_embd.weight F32 [288 32]", "blk.1.attn_q.weight F32 [32 32]", "blk.0.attn_norm.weight F32 [32]"}},
		{"llama", gguf.Q8_0, []string{"output.weight Q8_0 [293 32]", "blk.0.attn_k.weight Q8_0 [16 32]", "output_norm.weight F32 [32]"}},
		{"qwen2", gguf.Q8_0, []string{"blk.0.attn_q.bias F32 [32]", "blk.1.ffn_down.weight Q8_0 [32 32]"}},
		{"qwen3", gguf.BF16, []string{"blk.0.attn_q_norm.weight F32 [16]", "blk.0.attn_k_norm.weight F32 [16]", "blk.1.attn_output.weight BF16 [32 64]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := tinyBundle(t, th, tt.name)
			path := writeGGUF(t, b, tt.t)
			var got struct {
				Fields  map[string]any
				Tensors map[string][]uint32
			}
			out := readertest.Run(t, `
import json, sys
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
r = GGUFReader(sys.argv[1])
print(json.dumps({
    "fields": {k: f.contents() for k, f in r.fields.items()},
    "tensors": {"%s %s [%s]" % (t.name, t.tensor_type.name, " ".join(str(d) for d in reversed(t.shape))):
        dequantize(t.data, t.tensor_type).astype(np.float32).reshape(-1).view(np.uint32).tolist() for t in r.tensors}}))`, path)
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			c := b.Model.Config
			arch := c.ModelType + "."
			for key, want := range map[string]any{
				"GGUF.version": 3., "general.architecture": c.ModelType, "general.type": "model", "general.name": "tiny",
				"general.file_type": float64(fileTypes[tt.t]), "general.quantization_version": 2.,
				arch + "block_count": 2., arch + "context_length": 512., arch + "embedding_length": 32., arch + "feed_forward_length": float64(c.IntermediateSize),
				arch + "attention.head_count": 4., arch + "attention.head_count_kv": float64(c.NumKeyValueHeads), arch + "attention.key_length": float64(c.HeadDim),
				arch + "attention.value_length": float64(c.HeadDim), arch + "rope.dimension_count": float64(c.HeadDim), arch + "rope.freq_base": c.RopeTheta,
				arch + "attention.layer_norm_rms_epsilon": float64(float32(c.RMSNormEps)), arch + "vocab_size": float64(c.VocabSize),
				"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.bos_token_id": 1., "tokenizer.ggml.eos_token_id": 2.,
				"tokenizer.ggml.padding_token_id": 0., "tokenizer.ggml.add_bos_token": false, "tokenizer.chat_template": b.ChatTemplate(),
			} {
				if d := cmp.Diff(want, got.Fields[key]); d != "" {
					t.Errorf("%s (-want +got)\n%s", key, d)
				}
			}
			tokens, types := got.Fields["tokenizer.ggml.tokens"].([]any), got.Fields["tokenizer.ggml.token_type"].([]any)
			if len(tokens) != c.VocabSize || len(types) != c.VocabSize || tokens[2] != "<|im_end|>" || types[2] != 3. || types[10] != 1. {
				t.Errorf("%d tokens and %d types for %d rows", len(tokens), len(types), c.VocabSize)
			}
			if extra := c.VocabSize - b.Tokenizer.Size(); extra > 0 && types[c.VocabSize-1] != 5. {
				t.Errorf("the last token is %v of type %v, want an unused one", tokens[c.VocabSize-1], types[c.VocabSize-1])
			}
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, want := range tt.want {
				if got.Tensors[want] == nil {
					t.Errorf("no tensor %q", want)
				}
			}
			if len(got.Tensors) != len(f.Names()) {
				t.Errorf("%d tensors, want %d", len(got.Tensors), len(f.Names()))
			}
			for key, values := range got.Tensors {
				name, _, _ := bytes.Cut([]byte(key), []byte(" "))
				here, err := f.Float32s(string(name))
				if err != nil {
					t.Fatal(err)
				}
				bits := make([]uint32, len(here))
				for i, v := range here {
					bits[i] = math.Float32bits(v)
				}
				if !slices.Equal(bits, values) {
					t.Errorf("%s: the values differ", key)
				}
			}
		})
	}
}

func TestGGUFRefusals(t *testing.T) {
	th := newThread(t)
	b := tinyBundle(t, th, "llama-tied")
	change := func(from, to string) *Bundle {
		text := bytes.Replace(b.Tokenizer.RawJSON(), []byte(from), []byte(to), 1)
		tok, err := tokenizer.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(text, b.Tokenizer.RawJSON()) {
			t.Fatalf("the tokenizer has no %s", from)
		}
		c := *b
		c.Tokenizer = tok
		return &c
	}
	write := func(b *Bundle) error {
		return b.WriteGGUF(t.Context(), new(bytes.Buffer), GGUFOptions{Type: gguf.F32})
	}
	if err := write(change(`"individual_digits": true`, `"individual_digits": false`)); !errors.Is(err, gguf.ErrNoPreTokenizer) {
		t.Errorf("another pre-tokenizer: got error %v", err)
	}
	if err := write(change(`"rstrip": false`, `"rstrip": true`)); err == nil {
		t.Error("an added token with rstrip: no error")
	}
	if err := b.WriteGGUF(t.Context(), new(bytes.Buffer), GGUFOptions{Type: gguf.Q4_0}); err == nil {
		t.Error("Q4_0: no error")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.WriteGGUF(cancelled, new(bytes.Buffer), GGUFOptions{Type: gguf.F32}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: got error %v", err)
	}
	odd := b.Model.Config
	odd.HiddenSize, odd.IntermediateSize = 32, 40
	m, err := New(t.Context(), th, odd, 1, torch.Float32)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := (&Bundle{Model: m, Tokenizer: b.Tokenizer, TokenizerConfig: b.TokenizerConfig}).WriteGGUF(t.Context(), new(bytes.Buffer), GGUFOptions{Type: gguf.Q8_0}); err == nil {
		t.Error("rows that are no multiple of 32 as Q8_0: no error")
	}
}
