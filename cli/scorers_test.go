package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/reward/external"
)

// TestTrainWithComponents checks that a run trains with scores of two components: the environment and a server.
func TestTrainWithComponents(t *testing.T) {
	if testing.Short() {
		t.Skip("this test trains a model")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Samples []struct {
				Response string `json:"response"`
			} `json:"samples"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		scores := []any{}
		for _, s := range q.Samples {
			scores = append(scores, map[string]any{"score": len(s.Response), "four": 4})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"scores": scores})
	}))
	defer server.Close()
	r := &docRun{dir: t.TempDir(), args: []string{"run.toml"}}
	r.completeFresh(t)
	r.set("reward.components.goal.weight=2", "reward.components.mine.fn="+server.URL, "reward.components.mine.weight=0.5",
		"reward.invalid_action_penalty=0.25", "reward.allocation=uniform_positive")
	ts := newTestState(t, append([]string{"train"}, r.args...)...)
	ts.Dir = r.dir
	if code := Main(ts.State); code != 0 {
		t.Fatalf("exit code %d\n%s", code, ts.err.String())
	}
	found, err := filepath.Glob(filepath.Join(r.dir, "runs", "*", "metrics.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"reward/goal/mean"`, `"reward/mine/mean"`, `"reward/mine/four":4`, `"episode/valid_action_ratio"`, `"val/maze/reward/mine/mean"`, `"val/maze/reward/mean"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
}

func TestTrainWithoutGroundTruth(t *testing.T) {
	r := &docRun{dir: t.TempDir(), args: []string{"run.toml"}}
	r.completeFresh(t)
	r.set("reward.score_fn=qa_em")
	ts := newTestState(t, append([]string{"train"}, r.args...)...)
	ts.Dir = r.dir
	if code := Main(ts.State); code != int(errext.Input) || !strings.Contains(ts.err.String(), "task maze_18: its data row has no ground truth") {
		t.Errorf("exit code %d\n%s", code, ts.err.String())
	}
}

// TestDocumentedScoreProgram checks that the program in docs/rewards.md scores replies.
func TestDocumentedScoreProgram(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	dir := t.TempDir()
	n := 0
	for _, m := range fenced.FindAllStringSubmatch(pages(t)["rewards.md"], -1) {
		if m[1] == "python" {
			n++
			writeFile(t, dir, "my_reward.py", m[2])
		}
	}
	if n != 1 {
		t.Fatalf("%d programs in docs/rewards.md", n)
	}
	s, err := external.Open(fmt.Sprintf("exec:%s my_reward.py", python), external.Options{Dir: dir, Env: os.Environ(), Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		got, err := s.Score(t.Context(), []reward.Sample{{Response: "two words", EnvReward: 1}, {Response: "ümläut"}})
		want := []reward.Score{{Value: 0.998, Extra: map[string]float64{"words": 2}}, {Value: -0.001, Extra: map[string]float64{"words": 1}}}
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Fatalf("%v %s", err, d)
		}
	}
}
