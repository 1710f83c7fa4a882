// Package eval computes the results of an evaluation from its episodes.
//
// It contains the metrics of an evaluation with their intervals (success rate,
// mean@n, best@n, pass@k, shares of outcomes), the contract that records the
// conditions of an evaluation, and the comparison of two results. Playing belongs
// to agent/rollout; the caller decides what goes into a contract.
//
// All functions are pure: equal inputs give equal bytes.
package eval

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/internal/textwidth"
)

// Result is the result of an evaluation, also as JSON. The first seven keys are a
// fixed format.
type Result struct {
	Env         string  `json:"env"`
	Tasks       int     `json:"tasks"`
	Samples     int     `json:"samples"`
	SuccessRate float64 `json:"success_rate"`
	MeanScore   float64 `json:"mean_score"`
	MeanTurns   float64 `json:"mean_turns"`
	Outcomes    Tally   `json:"outcomes"`

	Lost     int               `json:"lost"` // episodes lost to servers or the engine; not scored
	Metrics  map[string]Figure `json:"metrics"`
	Families map[string]Family `json:"families,omitempty"`
	Infrastructure
	// The compared settings, which are not part of the contract.
	Model   string `json:"model"`
	Weights string `json:"weights"` // hash; "" for an endpoint's model
	Seed    uint64 `json:"seed"`

	Contract Contract `json:"contract"`
	// Starts is the digest of the tasks' first observations. It is "" in results
	// of older versions.
	Starts  string `json:"starts,omitempty"`
	Usage   any    `json:"usage,omitempty"` // requests to an endpoint and their tokens
	PerTask []Task `json:"per_task"`
}

// Family is a group of an environment's tasks.
type Family struct {
	Tasks   int               `json:"tasks"`
	Metrics map[string]Figure `json:"metrics"`
}

// New returns the result for tasks that were played n times each. The caller sets
// the model and the contract.
func New(env string, tasks []Task, n int, seed uint64) Result {
	r := Result{
		Env: env, Tasks: len(tasks), Samples: n, Outcomes: tallyOf(tasks), Seed: seed,
		Metrics: Figures(tasks, n, seed), PerTask: tasks, Starts: startsOf(tasks),
	}
	r.SuccessRate, r.MeanScore, r.MeanTurns = r.Metrics[SuccessRate].Value, r.Metrics[MeanScore].Value, r.Metrics[MeanTurns].Value
	families := map[string][]Task{}
	for _, t := range tasks {
		families[t.Family] = append(families[t.Family], t)
	}
	r.Lost = r.Outcomes.Lost()
	delete(families, "")
	if len(families) > 0 {
		r.Families = map[string]Family{}
	}
	for name, of := range families {
		r.Families[name] = Family{Tasks: len(of), Metrics: Figures(of, n, seed)}
	}
	return r
}

// String returns the report: a summary line, the failures, the metrics with their
// intervals, the families and the contract's hash.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s x %s: success %.3f, mean score %.3f, mean turns %.1f",
		r.Env, textwidth.Count(r.Tasks, "task"), textwidth.Count(r.Samples, "sample"), r.SuccessRate, r.MeanScore, r.MeanTurns)
	if len(r.Outcomes) > 0 {
		fmt.Fprintf(&b, "; %s", r.Outcomes)
	}
	summary := textwidth.Wrap(b.String()+"\n", textwidth.Limit)
	b.Reset()
	b.WriteString(summary)
	if r.Lost > 0 {
		fmt.Fprintf(&b, "lost to failures of the servers or the engine, and not scored: %s\n", textwidth.Count(r.Lost, "episode"))
	}
	b.WriteString(r.Line())
	if len(r.Metrics) > 0 {
		fmt.Fprintf(&b, "\n  %-24s %9s  %s\n", "metric", "value", "95% interval")
		writeFigures(&b, "", r.Metrics)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Families)) {
		f := r.Families[name]
		fmt.Fprintf(&b, "\n  %s (%s)\n", name, textwidth.Count(f.Tasks, "task"))
		writeFigures(&b, "  ", f.Metrics)
	}
	if r.Contract.Hash != "" {
		fmt.Fprintf(&b, "\ncontract %s\n", r.Contract.Hash)
	}
	if r.Starts != "" {
		fmt.Fprintf(&b, "starts   %s\n", r.Starts)
	}
	return b.String()
}

func writeFigures(b *strings.Builder, indent string, m map[string]Figure) {
	for _, name := range sortedMetrics(m) {
		f := m[name]
		fmt.Fprintf(b, "  %s%-*s %9.3f  %.3f - %.3f\n", indent, 24-len(indent), name, f.Value, f.Low, f.High)
	}
}

// sortedMetrics returns the names of metrics in display order: the main ones
// first, pass@k by k, outcomes last.
func sortedMetrics[V any](m map[string]V) []string {
	rank := func(name string) int {
		if i := slices.Index([]string{SuccessRate, MeanScore, MeanTurns}, name); i >= 0 {
			return i
		}
		for i, prefix := range []string{"mean@", "best@", "pass@"} {
			if strings.HasPrefix(name, prefix) {
				return 3 + i
			}
		}
		return math.MaxInt
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
}

// Infrastructure counts the failures of servers and the engine in an evaluation.
// They do not affect the scores.
type Infrastructure struct {
	Retries int         `json:"retries"` // attempts at episodes beyond the first
	Replays int         `json:"replays"` // lost instances that were replaced within attempts
	Servers pool.Counts `json:"servers"`
	// MixedStarts counts tasks that were played on one server only, because they
	// differ between servers; BadTasks holds the tasks that no server could reset.
	MixedStarts int      `json:"mixed_starts,omitempty"`
	BadTasks    []string `json:"bad_tasks,omitempty"`
}

// Line returns all nonzero counts as one line, "" if there are none.
func (i Infrastructure) Line() string {
	var parts []string
	add := func(n int64, one, many string) {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, map[bool]string{true: one, false: many}[n == 1]))
		}
	}
	faults := i.Servers.Faults
	var kinds []string
	for _, kind := range slices.SortedFunc(maps.Keys(faults), func(a, b string) int {
		return cmp.Or(cmp.Compare(faults[b], faults[a]), strings.Compare(a, b))
	}) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, faults[kind]))
	}
	of := " (" + strings.Join(kinds, ", ") + ")"
	add(i.Servers.AllFaults(), "server fault"+of, "server faults"+of)
	add(i.Servers.Quarantines, "server quarantine", "server quarantines")
	add(int64(i.Replays), "lost instance replaced", "lost instances replaced")
	add(int64(i.Retries), "episode retry", "episode retries")
	add(int64(i.MixedStarts), "task that differs between servers", "tasks that differ between servers")
	bad := " (" + strings.Join(i.BadTasks, ", ") + ")"
	add(int64(len(i.BadTasks)), "task excluded because no server can reset it"+bad, "tasks excluded because no server can reset them"+bad)
	if len(parts) == 0 {
		return ""
	}
	return "infrastructure: " + strings.Join(parts, ", ") + "\n"
}
