package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/configs"
)

func TestWorkChanges(t *testing.T) {
	score := `{"command":"score","input_sha256":"` + strings.Repeat("ab", 32) + `","prompt_key":"prompt","judges_sha256":{"a.sh":"1"},"reward":{"ScoreFn":"math"}}`
	for _, c := range []struct{ name, was, want string }{
		{"another command", strings.Replace(score, "score", "generate", 1), `command: "generate" -> "score"`},
		{"another input", strings.ReplaceAll(score, "ab", "cd"), `input_sha256: "cdcdcdcdcdcd" -> "abababababab"`},
		{"another file", strings.ReplaceAll(score, "a.sh", "b.sh"), `judges_sha256: {"b.sh":"1"} -> {"a.sh":"1"}`},
		{"another function", strings.ReplaceAll(score, "math", "f1"), `reward.score_fn: "f1" -> "math"`},
		{"a part more", strings.Replace(score, "{", `{"seed":1,`, 1), "seed: 1 -> (absent)"},
		{"another order", strings.Replace(score, "{", "{ ", 1), "another version of openmanus may have written it"},
	} {
		if got := workChanges([]byte(c.was), []byte(score)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestRewardModelDigest checks that the digest of a reward model covers all files of
// its folder.
func TestRewardModelDigest(t *testing.T) {
	h := newTestHost(t)
	if err := os.Mkdir(filepath.Join(h.Dir, "rm"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(h.Dir, "rm"), "config.json", "{}")
	writeFile(t, filepath.Join(h.Dir, "rm"), "model.safetensors", "weights")
	r := configs.Reward{ScoreFn: configs.ModelScoreFn, ModelPath: "rm"}
	hash := func() string {
		t.Helper()
		files, err := rewardDigests(&h.Host, r)
		if err != nil || len(files) != 1 || files["rm"] == "" {
			t.Fatalf("%v, %v", files, err)
		}
		return files["rm"]
	}
	before := hash()
	if hash() != before {
		t.Error("two hashes of the same folder differ")
	}
	writeFile(t, filepath.Join(h.Dir, "rm"), "model.safetensors", "others")
	if hash() == before {
		t.Error("the hash does not depend on the weights")
	}
}

// TestGenerateResultColumns checks that GenerateResult reports whether all rows have a
// known data source, and whether all rows have a ground truth.
func TestGenerateResultColumns(t *testing.T) {
	row := func(source, truth string) map[string]any {
		return map[string]any{"data_source": source, "reward_model": map[string]any{"ground_truth": truth}}
	}
	for _, c := range []struct {
		name            string
		rows            []map[string]any
		sources, truths bool
	}{
		{"known sources", []map[string]any{row("openai/gsm8k", "4"), row("searchR1_nq", "Paris")}, true, true},
		{"one unknown source", []map[string]any{row("openai/gsm8k", "4"), row("mine", "4")}, false, true},
		{"one without a ground truth", []map[string]any{row("openai/gsm8k", ""), row("openai/gsm8k", "4")}, true, false},
		{"nothing but prompts", []map[string]any{{"prompt": "?"}}, false, false},
	} {
		g := GenerateResult{Sources: true, Truths: true}
		for _, r := range c.rows {
			g.noteColumns(r)
		}
		if g.Sources != c.sources || g.Truths != c.truths {
			t.Errorf("%s: %+v", c.name, g)
		}
	}
}
