package model

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/torch"
)

// smollm2 returns the path of the real model that ./build.sh model fetches.
func smollm2(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "build", "models", "SmolLM2-135M-Instruct*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("the real model is not in build/models; ./build.sh model fetches it")
	}
	return files[0]
}

// TestSmolLM2 compares a real model with the same file loaded by transformers'
// gguf_file= option (make_goldens.py --smollm2).
func TestSmolLM2(t *testing.T) {
	path := smollm2(t)
	if testing.Short() {
		t.Skip("the test loads a model of 135 million parameters")
	}
	ctx := context.Background()
	golden := readJSON[struct {
		golden
		Chat struct {
			Prompt string  `json:"prompt"`
			IDs    []int32 `json:"ids"`
			Greedy []int32 `json:"greedy"`
			Text   string  `json:"text"`
		} `json:"chat"`
	}](t, filepath.Join("testdata", "smollm2.json"))
	b, err := Open(ctx, newThread(t), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	t.Run("log-probs", func(t *testing.T) {
		for _, seq := range golden.Sequences {
			got, err := b.Model.LogProbs(ctx, 1, seq.IDs)
			if err != nil {
				t.Fatal(err)
			}
			if d := maxDiff(t, got[0], seq.LogProbs); !(d <= tolerance) {
				t.Errorf("packed log-probs differ by %.2g from transformers", d)
			}
			for chunk, n := range map[int]int{1: 64, 48: len(seq.IDs)} {
				cached, err := b.Model.DecodeLogProbs(ctx, 1, seq.IDs[:n], chunk)
				if err != nil {
					t.Fatal(err)
				}
				if d := maxDiff(t, cached, seq.LogProbs[:n-1]); !(d <= tolerance) {
					t.Errorf("log-probs decoded in chunks of %d differ by %.2g from transformers", chunk, d)
				}
			}
		}
	})
	t.Run("greedy", func(t *testing.T) {
		if ids := b.Tokenizer.Encode(golden.Chat.Prompt, tokenizer.Options{}); !slices.Equal(ids, golden.Chat.IDs) {
			t.Errorf("the prompt's tokens are %v, want %v", ids, golden.Chat.IDs)
		}
		reply := greedy(t, b.Model, golden.Chat.IDs, len(golden.Chat.Greedy))
		if !slices.Equal(reply, golden.Chat.Greedy) {
			t.Errorf("reply is %v\nwant %v", reply, golden.Chat.Greedy)
		}
		if text := b.Tokenizer.Decode(reply, false); text != golden.Chat.Text {
			t.Errorf("the text of the reply is %q\nwant %q", text, golden.Chat.Text)
		}
	})
}

// greedy takes the most probable token n times.
func greedy(t *testing.T, m *Model, prompt []int32, n int) (reply []int32) {
	t.Helper()
	const blockSize = 32
	blocks := (len(prompt)+n)/blockSize + 1
	cache, err := m.NewCache(context.Background(), blocks, blockSize)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	table := make([]int32, blocks)
	for i := range table {
		table[i] = int32(blocks - 1 - i) // the order of blocks does not matter
	}
	next, at := prompt, 0
	for len(reply) < n {
		b := DecodeBatch{IDs: next, Outputs: []int64{int64(len(next) - 1)}}
		for i := range next {
			p := at + i
			b.Positions = append(b.Positions, int32(p))
			b.Slots = append(b.Slots, int64(table[p/blockSize])*blockSize+int64(p%blockSize))
		}
		at += len(next)
		b.Seqs = torch.CachedSeqs{QOffsets: []int{0, len(next)}, Lens: []int{at}, Blocks: [][]int32{table}}
		run(t, m.thread, func(s *torch.Scope) {
			s.NoGrad(func() {
				best, _, _ := torch.Sample(m.Logits(m.Decode(s, cache, b)), []torch.SampleRow{{Greedy: true}})
				reply = append(reply, best...)
			})
		})
		next = reply[len(reply)-1:]
	}
	return reply
}
