package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/cli/pace"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/textwidth"
)

// watcher shows training on the terminal: a bar for the current phase, and a line
// for each finished step. It implements algo.Events.
type watcher struct {
	s        *State
	barsOnly bool // log.backends lacks console: no lines are printed
	bar      *display

	current    algo.Phase
	supervised algo.Phase // current supervised phase, or the zero Phase
	pace       pace.Steps
}

// phaseNames maps phases to labels. Phases without a label are short and not shown.
var phaseNames = map[string]string{
	"gen": "playing", "gen_max": "playing greedily", "testing": "validating", "reward": "scoring", "values": "values", "adv": "advantages",
	"old_log_prob": "log-probs", "ref": "reference", "update_critic": "critic update", "update_actor": "update", "save_checkpoint": "saving",
	algo.PhaseReference: "saving the reference",
}

// opened reads the times of the steps of earlier processes.
func (w *watcher) opened(folder *rundir.Folder) {
	if err := w.pace.Load(folder.Metrics()); err != nil {
		w.s.Log.Warn("the remaining time is estimated without the earlier steps", "error", err)
	}
}

// Phase starts a bar. Supervised training has one bar for all its steps.
func (w *watcher) Phase(p algo.Phase) {
	if p.Name == algo.PhaseSFT || p.Name == run.PhaseRead {
		w.supervisedPhase(p)
		return
	}
	if w.supervised.Name != "" && p.Name == "save_checkpoint" { // the bar of supervised training stays while a checkpoint is saved
		return
	}
	w.done()
	prior := w.pace.Phase(w.s.Now(), p)
	label, shown := phaseNames[p.Name]
	if !shown {
		return
	}
	switch {
	case p.Of != "":
		label += " " + p.Of
	case p.Step > 0:
		label = fmt.Sprintf("step %d/%d %s", p.Step, p.Steps, label)
	}
	w.current = p
	w.bar = w.s.display(work{label: label, total: p.Total, prior: prior, runLeft: w.pace.Left})
	if p.Sampled != nil {
		w.bar.Live(func() string { return run.SampledNote(p.Sampled()) })
	}
	w.Progress(0, "")
}

// supervisedUnits is the number of units of a bar in a step of supervised training.
const supervisedUnits = 1000

// supervisedPhase starts a step of supervised training.
func (w *watcher) supervisedPhase(p algo.Phase) {
	if w.supervised.Name == "" {
		w.done()
		w.bar = w.s.display(work{label: p.Name, total: p.Steps * supervisedUnits, uncount: true})
	}
	w.supervised = p
	w.Progress(0, "")
}

// Progress moves the bar.
func (w *watcher) Progress(n int, note string) {
	if w.bar == nil {
		return
	}
	if p := w.supervised; p.Name != "" {
		note = fmt.Sprintf("step %d/%d", p.Step, p.Steps)
		if p.Total > 1 {
			note += fmt.Sprintf(", rows %d/%d", n, p.Total)
		}
		n = (p.Step-1)*supervisedUnits + supervisedUnits*n/max(1, p.Total)
	} else if w.current.Sampled == nil && w.current.Total > 0 {
		note = joined("rows", note)
	}
	w.bar.Set(n, note)
}

// done removes the bar.
func (w *watcher) done() {
	w.supervised, w.current = algo.Phase{}, algo.Phase{}
	w.pace.EndPhase(w.s.Now())
	if w.bar == nil {
		return
	}
	w.bar.Done()
	w.bar = nil
}

// Step prints the main metrics of a step on a line.
func (w *watcher) Step(step, steps int, m algo.Metrics) {
	n, name := int(m[track.SFTStep]), "sft"
	if read, ok := m[track.ReadStep]; ok {
		n, name = int(read), "read"
	}
	supervised := n > 0
	switch {
	case !supervised:
		w.done()
		w.pace.End(w.s.Now(), step, steps)
	case n == steps:
		w.done()
	}
	if w.barsOnly {
		return
	}
	if supervised {
		if n == 1 || n == steps || n%sftEvery(steps) == 0 {
			fmt.Fprintf(w.s.Stderr, "%s %*d/%d  loss %.4f  lr %.2g  %.1f s\n", name, len(fmt.Sprint(steps)), n, steps,
				m[track.SFTLoss], m[track.SFTLR], m[track.TimingSFT])
		}
		return
	}
	fmt.Fprintln(w.s.Stderr, w.fit(w.stepLine(step, steps, m)))
}

// stepLine returns the parts of a step's line and their ranks, by which fit drops parts.
func (w *watcher) stepLine(step, steps int, m algo.Metrics) (parts []string, rank []int) {
	add := func(r int, format string, args ...any) {
		parts, rank = append(parts, fmt.Sprintf(format, args...)), append(rank, r)
	}
	add(0, "step %*d/%d", len(fmt.Sprint(steps)), step, steps)
	add(0, "success %.2f", m[track.SuccessRate])
	add(1, "reward %.3f", m[track.EpisodeReward+"/mean"])
	for name := range m {
		if strings.HasPrefix(name, "reward/") { // score functions replace the environment's score
			add(1, "score %.3f", m[track.CriticScore+"/mean"])
			break
		}
	}
	add(3, "turns %.1f", m[track.NumberOfActions+"/mean"])
	for _, name := range []string{track.ActorKLLoss, track.CriticKL} { // the KL to the reference, in the loss or in the reward
		if kl, measured := m[name]; measured {
			add(4, "kl %.1e", kl)
			break
		}
	}
	if kept, evolves := m[track.Evol+algo.Overall+"/kept"]; evolves {
		add(2, "kept %.0f", kept)
		add(2, "loss %.4f", m[track.EvolLoss])
	} else if gap, measured := m[track.LogProbGap+"_mean"]; measured {
		add(5, "gap %.1e", gap)
	}
	add(6, "grad %.2f", m[track.ActorGradNorm])
	add(7, "lr %.2g", m[track.ActorLR])
	add(2, "%.1f s", m[track.TimingStep])
	if left, _, ok := w.pace.Left(w.s.Now(), 0); ok && step < steps {
		add(1, "(%s left)", clock(left))
	}
	return parts, rank
}

// fit joins the parts of a line. On a terminal it drops parts until the line
// fits, the highest rank first. It never drops rank 0.
func (w *watcher) fit(parts []string, rank []int) string {
	const gap = "  "
	text := strings.Join(parts, gap)
	for w.s.Terminal && utf8.RuneCountInString(text) > w.s.columns()-1 {
		i := slices.Index(rank, slices.Max(rank))
		if rank[i] == 0 {
			return textwidth.Cut(text, w.s.columns()-1)
		}
		parts, rank = slices.Delete(parts, i, i+1), slices.Delete(rank, i, i+1)
		text = strings.Join(parts, gap)
	}
	return text
}

// sftEvery returns the number of supervised steps per printed line, so that
// about ten lines are printed.
func sftEvery(steps int) int { return max(1, steps/10) }

// Validated prints the result of a validation.
func (w *watcher) Validated(v rundir.Validation) {
	w.done()
	if w.barsOnly {
		return
	}
	when := fmt.Sprintf("validation (%s)", v.Label)
	if loss, ok := v.Metrics[track.ValidationLoss]; ok {
		fmt.Fprintln(w.s.Stderr, w.fit([]string{when, "sft.val_files", fmt.Sprintf("loss %.4f", loss)}, []int{0, 1, 0}))
	}
	for _, r := range v.Results() {
		fmt.Fprintln(w.s.Stderr, w.fit([]string{when, r.Env, fmt.Sprintf("success %.3f", r.Success), fmt.Sprintf("score %.3f", r.Score), fmt.Sprintf("turns %.1f", r.Turns)},
			[]int{0, 0, 0, 1, 2}))
	}
}
