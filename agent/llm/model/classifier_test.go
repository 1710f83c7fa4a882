package model

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/torch"
)

// scorers lists the classifiers of testdata (make_goldens.py).
var scorers = []string{"llama-score", "qwen2-score"}

// TestScoresMatchTransformers checks that scores equal those of AutoModelForSequenceClassification
// for single and packed sequences, with and without padding at the end.
func TestScoresMatchTransformers(t *testing.T) {
	ctx := context.Background()
	for _, name := range scorers {
		t.Run(name, func(t *testing.T) {
			m := openTiny(t, newThread(t), name, torch.Float32)
			g := readJSON[golden](t, filepath.Join("testdata", name, "golden.json"))
			seqs, want := g.ids(), []float64(nil)
			for _, s := range g.Sequences {
				want = append(want, s.Score)
			}
			if len(seqs) < 4 {
				t.Fatalf("%d golden sequences, want at least 4", len(seqs))
			}
			packed, err := m.Scores(ctx, seqs...)
			if err != nil {
				t.Fatal(err)
			}
			if d := maxDiff(t, packed, want); !(d <= tolerance) {
				t.Errorf("packed scores differ by %.2g from the golden", d)
			}
			for i, seq := range seqs {
				alone, err := m.Scores(ctx, seq)
				if err != nil {
					t.Fatal(err)
				}
				if d := maxDiff(t, alone, want[i:i+1]); !(d <= tolerance) {
					t.Errorf("score of sequence %d differs by %.2g from the golden", i, d)
				}
			}
		})
	}
}

// tinyClassifier returns a classifier with random weights and a tokenizer.
func tinyClassifier(t *testing.T, th *torch.Thread, modelType string, labels int) *Bundle {
	t.Helper()
	pad := int32(0)
	c := Config{
		ModelType: modelType, VocabSize: 288, HiddenSize: 32, IntermediateSize: 48, NumHiddenLayers: 2, NumAttentionHeads: 4, NumKeyValueHeads: 2,
		HeadDim: 8, MaxPositionEmbeddings: 64, RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.3, PadTokenID: &pad, Labels: labels,
		TieWordEmbeddings: modelType == "qwen2",
	}
	m, err := New(context.Background(), th, c, 5, torch.Float32)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	b := &Bundle{Model: m, Generation: generationFromConfig(c)}
	dir := filepath.Join("testdata", "llama-tied")
	if b.Tokenizer, err = tokenizer.Load(dir); err == nil {
		b.TokenizerConfig, err = tokenizer.LoadConfig(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestClassifierRoundTrip checks that a saved reward model opens as a reward model with the same scores.
func TestClassifierRoundTrip(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	seqs := [][]int32{{1, 17, 20, 3}, {5}, {9, 8, 7, 0, 0}, {9, 8, 7}, {0, 0}}
	for _, modelType := range ModelTypes() {
		b := tinyClassifier(t, th, modelType, 1)
		want, err := b.Model.Scores(ctx, seqs...)
		if err != nil {
			t.Fatal(err)
		}
		if d := abs(float64(want[2] - want[3])); !(d < 1e-5) {
			t.Errorf("%s: padding changes the score by %.2g", modelType, d)
		}
		dir := filepath.Join(t.TempDir(), "saved")
		if err := b.Save(ctx, dir, torch.Float32); err != nil {
			t.Fatal(err)
		}
		d, err := Describe(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Config.Labels != 1 || d.CheckReward() != nil {
			t.Errorf("%s: Describe: got %d labels, CheckReward error %v", modelType, d.Config.Labels, d.CheckReward())
		}
		reopened, err := Open(ctx, th, dir, Options{Classifier: true})
		if err != nil {
			t.Fatal(err)
		}
		defer reopened.Close()
		got, err := reopened.Model.Scores(ctx, seqs...)
		if err != nil {
			t.Fatal(err)
		}
		if d := maxDiff(t, got, widen(want)); d != 0 {
			t.Errorf("%s: the scores of the saved model differ by %.2g", modelType, d)
		}
		if _, err := Open(ctx, th, dir, Options{}); err == nil || !strings.Contains(err.Error(), "sequence classifier") {
			t.Errorf("%s as a language model: %v", modelType, err)
		}
	}
}

func TestNoRewardModel(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	saved := func(labels int) string {
		dir := filepath.Join(t.TempDir(), "saved")
		if err := tinyClassifier(t, th, "llama", labels).Save(ctx, dir, torch.Float32); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	noScore := saved(1)
	language := saved(0)
	if err := os.Rename(filepath.Join(language, "model.safetensors"), filepath.Join(noScore, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	noLabelNames := saved(1)
	editConfig(t, noLabelNames, func(c map[string]any) { delete(c, "id2label") })
	for _, c := range []struct {
		name, path, words string
		kind              bool // want ErrNoReward
	}{
		{"a language model", filepath.Join("testdata", "llama-tied"), "without a score head", true},
		{"three labels", saved(3), "3 labels", true},
		{"classifier without a number of labels", noLabelNames, "2 labels", true},
		{"a GGUF file", filepath.Join("testdata", "gguf", "llama-q8_0.gguf"), "without a score head", true},
		{"no score among the weights", noScore, "score.weight is missing", false},
	} {
		_, err := Open(ctx, th, c.path, Options{Classifier: true})
		if err == nil || !strings.Contains(err.Error(), c.words) || errors.Is(err, ErrNoReward) != c.kind {
			t.Errorf("%s: got %v, want %q", c.name, err, c.words)
		}
	}
	m := tinyClassifier(t, th, "llama", 1).Model
	for name, seq := range map[string][]int32{"empty": {}, "outside the vocabulary": {288}, "too long": make([]int32, 65)} {
		if _, err := m.Scores(ctx, []int32{1}, seq); err == nil || !strings.Contains(err.Error(), "sequence 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
