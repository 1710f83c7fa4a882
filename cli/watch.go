package cli

import (
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/track"
)

// watcher shows a run on the terminal: a bar for what is being done, a line
// for what was.
type watcher struct {
	s     *State
	quiet bool // the console is not among log.backends
	bar   Progress
}

// phaseNames are the phases as people read them.
var phaseNames = map[string]string{
	"gen": "playing", "testing": "validating",
}

// Phase begins a bar for the phases that count something.
func (w *watcher) Phase(step int, name string, total int) {
	w.done()
	label, counted := phaseNames[name]
	if !counted || total == 0 {
		return
	}
	w.bar = w.s.Progress(fmt.Sprintf("step %d %s", step, label), total)
}

// Progress moves the bar.
func (w *watcher) Progress(n int, note string) {
	if w.bar != nil {
		w.bar.Set(n, note)
	}
}

func (w *watcher) done() {
	if w.bar != nil {
		w.bar.Done()
		w.bar = nil
	}
}

// Step prints a line with what matters most.
func (w *watcher) Step(step, steps int, m algo.Metrics) {
	w.done()
	if w.s.Quiet || w.quiet {
		return
	}
	if step == 0 {
		name, n := "sft", int(m["sft/step"])
		if read, ok := m["read/step"]; ok {
			name, n = "read", int(read)
		}
		if n == 1 || n == steps || n%sftEvery(steps) == 0 {
			fmt.Fprintf(w.s.Stderr, "%s %*d/%d  loss %.4f  lr %.2g  %.1f s\n", name, len(fmt.Sprint(steps)), n, steps,
				m["train/loss"], m["train/lr"], m["timing_s/sft"])
		}
		return
	}
	learned := fmt.Sprintf("kl %.1e", m["rollout/logprob_gap_k3"])
	if kept, evolves := m[track.Evol+algo.Overall+"/kept"]; evolves {
		learned = fmt.Sprintf("kept %.0f  loss %.4f", kept, m[track.EvolLoss])
	}
	paid := fmt.Sprintf("reward %.3f", m["episode/reward/mean"])
	for name := range m {
		if strings.HasPrefix(name, "reward/") { // score functions say what the environment's is replaced by
			paid += fmt.Sprintf("  score %.3f", m["critic/score/mean"])
			break
		}
	}
	line := fmt.Sprintf("step %*d/%d  success %.2f  %s  turns %.1f  %s  grad %.2f  lr %.2g  %.1f s",
		len(fmt.Sprint(steps)), step, steps, m["episode/success_rate"], paid, m["env/number_of_actions/mean"],
		learned, m["actor/grad_norm"], m["actor/lr"], m["timing_s/step"])
	fmt.Fprintln(w.s.Stderr, line)
}

// sftEvery thins the lines of supervised training to about ten.
func sftEvery(steps int) int { return max(1, steps/10) }

// Validated prints the result of a validation.
func (w *watcher) Validated(v algo.Validation) {
	w.done()
	if w.s.Quiet || w.quiet {
		return
	}
	if loss, ok := v.Metrics[track.ValidationLoss]; ok {
		fmt.Fprintf(w.s.Stderr, "validation (%s)  loss %.4f\n", v.Label, loss)
	}
	for _, r := range resultsOf(v) {
		fmt.Fprintf(w.s.Stderr, "validation (%s)  %s  success %.3f  score %.3f  turns %.1f\n", v.Label, r.env, r.success, r.score, r.turns)
	}
}

// result is one environment's share of a validation.
type result struct {
	env                             string
	success, score, turns, episodes float64
}

// resultsOf reads the summaries out of a validation's metrics: those of the
// environments, and behind them of all together where there are several.
func resultsOf(v algo.Validation) []result {
	var out []result
	overall := result{}
	for _, name := range sortedKeys(v.Metrics) {
		env, ok := strings.CutPrefix(name, "val/")
		if !ok {
			continue
		}
		if env, ok = strings.CutSuffix(env, "/success_rate"); !ok {
			continue
		}
		p := "val/" + env + "/"
		r := result{env, v.Metrics[name], v.Metrics[p+"mean_score"], v.Metrics[p+"mean_turns"], v.Metrics[p+"episodes"]}
		if env == algo.Overall {
			overall = r
			continue
		}
		out = append(out, r)
	}
	if len(out) > 1 {
		out = append(out, overall)
	}
	return out
}
