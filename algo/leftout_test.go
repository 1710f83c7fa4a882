package algo

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

// withLongObservations adds 300 bytes to the first observation of the games with the given numbers.
func withLongObservations(h http.Handler, overlong ...int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(req.Body)
		var reset struct{ Game *int }
		chosen := strings.HasSuffix(req.URL.Path, "/reset") && json.Unmarshal(body.Bytes(), &reset) == nil && slices.Contains(overlong, *reset.Game)
		req.Body = readCloser{&body}
		if !chosen {
			h.ServeHTTP(w, req)
			return
		}
		inner := httptest.NewRecorder()
		h.ServeHTTP(inner, req)
		var reply map[string]any
		if json.Unmarshal(inner.Body.Bytes(), &reply) == nil {
			reply["observation"] = reply["observation"].(string) + strings.Repeat("x", 300)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply)
	})
}

// TestFilterOverlong checks that a task whose first prompt is too long is excluded
// from training steps and validations, and that another task replaces it.
func TestFilterOverlong(t *testing.T) {
	for _, estimator := range []string{"grpo", "remax"} {
		t.Run(estimator, func(t *testing.T) {
			r := quick(t, func(o *Options) { o.Estimator, o.DropZeroSpread, o.ValBeforeTrain = estimator, false, true })
			r.maze = withLongObservations(r.maze, 17)
			r.play = func(o *agent.Options) { o.MaxPrompt, o.FilterOverlong = 300, true }
			r.steps = 3 // 2 tasks per step: each of the 3 tasks is drawn
			must(t, r.fit(t, t.Context(), t.Context()))
			lines, left := r.lines(t), 0.0
			for step := 1; step <= 3; step++ {
				m := lines[step]
				left += m["rollout/overlong_tasks"]
				if m["rollout/dropped"] != 0 || m["rollout/retries"] != 0 {
					t.Errorf("step %d: overlong prompts count as failures: %v dropped, %v retries", step, m["rollout/dropped"], m["rollout/retries"])
				}
				groups := map[string]int{}
				for _, ep := range dumped(t, filepath.Join(r.dir, "rollouts", "step_"+string(rune('0'+step))+".jsonl")) {
					if overlong := ep.Task.Index == 17; overlong != (ep.Outcome == data.OverlongPrompt) {
						t.Errorf("step %d: maze %d ended with %s", step, ep.Task.Index, ep.Outcome)
					}
					if ep.Outcome.Trainable() {
						groups[ep.UID]++
					}
				}
				if len(groups) != 2 {
					t.Errorf("step %d has the groups %v, want 2", step, groups)
				}
			}
			if left == 0 {
				t.Error("no task was left out, so the test checks nothing")
			}
		})
	}
}

// TestEveryPromptIsOverlong checks that a run whose first prompts are all too long ends with an
// error at the first validation or step.
func TestEveryPromptIsOverlong(t *testing.T) {
	for name, validates := range map[string]bool{"step": false, "validation": true} {
		r := quick(t, func(o *Options) { o.ValBeforeTrain = validates })
		r.play = func(o *agent.Options) { o.MaxPrompt, o.FilterOverlong = 10, true }
		err := r.fit(t, t.Context(), t.Context())
		var overlong *OverlongError
		if !errors.As(err, &overlong) || !strings.Contains(err.Error(), "max_prompt_tokens is 10") || (overlong.Env == "maze") != validates {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFilterOverlongIsRepeated checks that replacements come from the order of tasks: a step that
// is repeated after a kill draws the same replacements.
func TestFilterOverlongIsRepeated(t *testing.T) {
	play := func(r *rig) []string {
		var got []string
		for step := 1; step <= 3; step++ {
			for _, ep := range dumped(t, filepath.Join(r.dir, "rollouts", "step_"+string(rune('0'+step))+".jsonl")) {
				got = append(got, ep.UID+" "+string(ep.Outcome)+" "+strings.Repeat("t", len(ep.Tokens)))
			}
		}
		return got
	}
	var want []string
	for _, killed := range []bool{false, true} {
		r := quick(t, func(o *Options) { o.SaveEvery = 1 })
		r.maze = withLongObservations(r.maze, 17)
		r.play = func(o *agent.Options) { o.MaxPrompt, o.FilterOverlong = 300, true }
		r.steps = 3
		if killed {
			r.killAfter(t, 1)
		}
		must(t, r.fit(t, t.Context(), t.Context()))
		if !killed {
			want = play(r)
		} else if got := play(r); !slices.Equal(got, want) {
			t.Errorf("episodes after a resume:\n%v\nwant\n%v", got, want)
		}
	}
}

// TestTruncatedPromptsAreTrainedOn checks that training uses the truncated form of a truncated
// first prompt.
func TestTruncatedPromptsAreTrainedOn(t *testing.T) {
	r := quick(t, nil)
	r.maze = withLongObservations(r.maze, 17, 18, 2)
	r.play = func(o *agent.Options) { o.MaxPrompt, o.Truncation = 300, agent.TruncateLeft }
	must(t, r.fit(t, t.Context(), t.Context()))
	m := r.lines(t)[1]
	if m["prompt_length/clip_ratio"] != 1 || m["prompt_length/max"] > 300 || m["rollout/logprob_gap/mean"] > 1e-4 {
		t.Errorf("share %v of prompts truncated, want 1; the longest has %v tokens, want at most 300; gap %v", m["prompt_length/clip_ratio"], m["prompt_length/max"], m["rollout/logprob_gap/mean"])
	}
	if _, filtered := m["rollout/overlong_tasks"]; filtered {
		t.Error("metric rollout/overlong_tasks is present without data.filter_overlong")
	}
	for _, ep := range dumped(t, filepath.Join(r.dir, "rollouts", "step_1.jsonl")) {
		if !ep.PromptTruncated || strings.Contains(ep.Messages[0].Content, ep.FirstObservation) {
			t.Errorf("%s: the dump lacks the truncated text", ep.UID)
		}
	}
}

// withoutData makes resets fail for the games for which the function bad returns true.
func withoutData(h http.Handler, bad func(game int) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(req.Body)
		var reset struct{ Game *int }
		if strings.HasSuffix(req.URL.Path, "/reset") && json.Unmarshal(body.Bytes(), &reset) == nil && reset.Game != nil && bad(*reset.Game) {
			http.Error(w, "no data", http.StatusInternalServerError)
			return
		}
		req.Body = readCloser{&body}
		h.ServeHTTP(w, req)
	})
}

// TestBadTaskIsReplaced checks that a run continues if no server can reset a
// task, even if the step has no other task: the next task takes its place.
func TestBadTaskIsReplaced(t *testing.T) {
	for _, estimator := range []string{"grpo", "remax"} {
		t.Run(estimator, func(t *testing.T) {
			r := quick(t, func(o *Options) {
				o.Estimator, o.DropZeroSpread, o.BatchTasks = estimator, false, 1
				o.Train.Replays = 5
			})
			r.maze = withoutData(r.maze, func(game int) bool { return game == 17 })
			r.steps = 3 // 1 task per step: each of the 3 tasks is drawn
			must(t, r.fit(t, t.Context(), t.Context()))
			left := 0.0
			for step, m := range r.lines(t) {
				if step == 0 {
					continue
				}
				left += m["rollout/bad_tasks"]
				groups := map[string]bool{}
				for _, ep := range dumped(t, filepath.Join(r.dir, "rollouts", "step_"+string(rune('0'+step))+".jsonl")) {
					if bad := ep.Task.Index == 17; bad == ep.Outcome.Trainable() {
						t.Errorf("step %d: maze %d ended with %s", step, ep.Task.Index, ep.Outcome)
					}
					if ep.Outcome.Trainable() {
						groups[ep.UID] = true
					}
				}
				if len(groups) != 1 {
					t.Errorf("step %d has the groups %v, want 1", step, groups)
				}
			}
			if left == 0 {
				t.Error("no task was left out, so the test checks nothing")
			}
		})
	}
}

// TestEveryTaskIsBad checks that a run ends with an error at the first step if no server can reset
// any task.
func TestEveryTaskIsBad(t *testing.T) {
	r := quick(t, func(o *Options) { o.Train.Replays = 5 })
	r.maze = withoutData(r.maze, func(int) bool { return true })
	err := r.fit(t, t.Context(), t.Context())
	var failed *rollout.FailedError
	if !errors.As(err, &failed) || failed.Failed != failed.Total || !strings.Contains(err.Error(), "is excluded") {
		t.Errorf("%v", err)
	}
}

func TestUnplayedTasks(t *testing.T) {
	ep := func(uid, task string, o data.Outcome) *data.Episode {
		return &data.Episode{UID: uid, Task: data.Task{ID: task}, Outcome: o}
	}
	got := overlongTasks([]*data.Episode{
		ep("1/a", "a", data.OverlongPrompt), ep("1/a", "a", data.OverlongPrompt), ep("1/b", "b", data.Done), ep("1/b", "b", data.OverlongPrompt),
		ep("1/a#2", "a", data.OverlongPrompt), ep("1/c", "c", data.EnvError),
	})
	if strings.Join(got, " ") != "a a" {
		t.Errorf("overlongTasks = %v, want [a a]", got)
	}
	got = badTasks([]*data.Episode{
		ep("1/a", "a", data.EnvError), ep("1/a", "a", data.EnvError), ep("1/b", "b", data.EnvError), ep("1/c", "c", data.Done), ep("1/c", "c", data.EnvError),
	}, []string{"a", "c"})
	if strings.Join(got, " ") != "a" {
		t.Errorf("badTasks = %v, want [a]", got)
	}
}
