package algo

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/data/table"
)

// withoutSpread gives all episodes of the maze with the index spared the same reward and every other episode a different
// reward, so that only the group of this maze has no spread.
func withoutSpread(inner http.Handler, spared int) http.Handler {
	var mu sync.Mutex
	plays := map[int64]int{} // current maze of each instance
	steps := 0
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(req.Body)
		var asked struct {
			ID   int64
			Game *int
		}
		_ = json.Unmarshal(body.Bytes(), &asked) // fails for a GET, whose body is empty
		req.Body = readCloser{&body}
		worth := 0.
		mu.Lock()
		if asked.Game != nil {
			plays[asked.ID] = *asked.Game
		}
		if strings.HasSuffix(req.URL.Path, "/step") && plays[asked.ID] != spared {
			steps++
			worth = float64(steps) / 1000
		}
		mu.Unlock()
		withRewards(inner, func([]byte) float64 { return worth }).ServeHTTP(w, req)
	})
}

// TestThroughputCountsTokensOfPhase checks that the throughput of a phase counts only the tokens it
// processes. The group without spread is part of the earlier passes, but not of the update.
func TestThroughputCountsTokensOfPhase(t *testing.T) {
	const spared = 17
	r := quick(t, func(o *Options) {
		o.BatchTasks, o.Policy.Passes.Epochs = 3, 2
		o.KLReward = &KLReward{Type: "k3", Controller: kl.Controller{Kind: kl.Fixed, Coef: .1}}
		o.FilterMetric = "score" // seq_final_reward would have a spread due to the KL
	})
	r.maze = withoutSpread(r.maze, spared)
	must(t, r.fit(t, t.Context(), t.Context()))
	m := r.lines(t)[1]
	all, left := 0, 0
	_, err := table.ReadSource(t.Context(), filepath.Join((&rundir.Folder{Dir: r.dir}).Rollouts(), "step_1.jsonl"), func(e *table.Entry) error {
		n := len(e.Episode.Tokens)
		if all += n; e.Episode.Task.Index != spared {
			left += n
		}
		return nil
	})
	must(t, err)
	if m["group/dropped_rows"] != 3 || !(0 < left && left < all) {
		t.Fatalf("%v episodes were dropped, want 3; %d of %d tokens are left, want a part of them", m["group/dropped_rows"], left, all)
	}
	for phase, want := range map[string]struct {
		metric string
		tokens int
	}{
		"old_log_prob": {"old_log_prob", all}, "ref": {"ref", all}, "update_actor": {"update", 2 * left},
	} {
		got := m["perf/"+want.metric+"_tokens_per_s"] * m["timing_s/"+phase]
		if math.Abs(got-float64(want.tokens)) > 1e-6*float64(want.tokens) {
			t.Errorf("phase %s processed %v tokens, want %d", phase, got, want.tokens)
		}
	}
}
