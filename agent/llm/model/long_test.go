package model

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// longIDs returns long_ids of make_goldens.py.
func longIDs(n, vocab int) []int32 {
	out := make([]int32, n)
	x := uint64(1)
	for i := range out {
		x = (x*1103515245 + 12345) % (1 << 31)
		out[i] = int32(3 + x/65536%uint64(vocab-3))
	}
	return out
}

// TestLongContext compares log-probs at large positions with transformers. Rotary
// angles, and the errors of their frequencies, grow with the position. The
// log-probs of another theta must differ, which shows that the test is sensitive.
func TestLongContext(t *testing.T) {
	const length, every = 4096, 128
	ctx := context.Background()
	goldens := readJSON[map[string][]float64](t, filepath.Join("testdata", "long.json"))
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			for _, off := range []float64{0, 0.001} {
				dir := copyTiny(t, name)
				editConfig(t, dir, func(c map[string]any) {
					c["max_position_embeddings"] = length
					at := c
					if p, ok := c["rope_parameters"].(map[string]any); ok {
						at = p
					}
					at["rope_theta"] = at["rope_theta"].(float64) * (1 + off)
				})
				c, err := readConfig(dir)
				if err != nil {
					t.Fatal(err)
				}
				m, err := loadFolder(ctx, newThread(t), dir, c, torch.Float32)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				ids := longIDs(length, m.Config.VocabSize)
				packed, err := m.LogProbs(ctx, 1, ids)
				if err != nil {
					t.Fatal(err)
				}
				cached, err := m.DecodeLogProbs(ctx, 1, ids, 512)
				if err != nil {
					t.Fatal(err)
				}
				for way, all := range map[string][]float32{"packed": packed[0], "cached": cached} {
					var got []float32
					for i := every - 2; i < len(all); i += every {
						got = append(got, all[i])
					}
					d := maxDiff(t, got, goldens[name])
					if off == 0 && !(d <= tolerance) {
						t.Errorf("%s: log-probs differ by %.2g from transformers", way, d)
					}
					if off != 0 && !(d > tolerance) {
						t.Errorf("%s: a theta with an error of 0.1 %% changes log-probs by only %.2g", way, d)
					}
				}
			}
		})
	}
}
