package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/textwidth"
)

// Comparison compares runs: their settings, and their last validations.
type Comparison struct {
	Runs        []Facts      `json:"runs"`
	Differences []Difference `json:"differences"`
	Results     []RunResult  `json:"results"`
	Pairs       []Pair       `json:"pairs"`
}

// RunResult is the result of a run's last validation in one environment.
type RunResult struct {
	Run   string `json:"run"`
	Label string `json:"label"`
	Step  int    `json:"step"`
	rundir.Result
}

// Pair compares the last validation of a run in one environment with that of the first run,
// task by task.
type Pair struct {
	A          string           `json:"a"`
	B          string           `json:"b"`
	Env        string           `json:"env"`
	Comparison *eval.Comparison `json:"comparison,omitempty"` // nil if Missing is set
	Missing    string           `json:"missing,omitempty"`    // reason why there is no comparison
}

// Compare compares runs with the first one.
func Compare(runs []*Run) (Comparison, error) {
	c := Comparison{Differences: Differences(runs)}
	for _, r := range runs {
		c.Runs = append(c.Runs, FactsOf(r))
		if v := r.lastValidation(); v != nil {
			for _, x := range v.Results {
				c.Results = append(c.Results, RunResult{r.Name, v.Label, v.Step, x})
			}
		}
	}
	first := runs[0]
	if first.lastValidation() == nil {
		return c, nil
	}
	for _, env := range first.validated() {
		a, missing, err := first.evaluation(env)
		if err != nil {
			return c, err
		}
		for _, r := range runs[1:] {
			p := Pair{A: first.Name, B: r.Name, Env: env, Missing: missing}
			if missing == "" {
				var b *eval.Result
				if b, p.Missing, err = r.evaluation(env); err != nil {
					return c, err
				}
				if p.Missing == "" {
					compared, err := eval.Compare(*a, *b, true)
					if err != nil {
						return c, fmt.Errorf("compare %s with %s: %w", first.Name, r.Name, err)
					}
					p.Comparison = &compared
				}
			}
			c.Pairs = append(c.Pairs, p)
		}
	}
	return c, nil
}

// lastValidation returns the last validation that played episodes, or nil.
func (r *Run) lastValidation() *Validation {
	for i := len(r.Validations) - 1; i >= 0; i-- {
		if len(r.Validations[i].Results) > 0 {
			return &r.Validations[i]
		}
	}
	return nil
}

// validated returns the environments of the last validation.
func (r *Run) validated() []string {
	var envs []string
	list := r.lastValidation().Results
	if len(list) > 1 {
		list = list[:len(list)-1] // the last one is the result over all environments
	}
	for _, x := range list {
		envs = append(envs, x.Env)
	}
	return envs
}

// conditions lists prefixes of the settings that change the validation result of the same weights.
var conditions = []string{"agent.", "rollout.val.", "rollout.max_context_tokens", "rollout.max_new_tokens", "data.max_prompt_tokens", "data.truncation", "reward."}

// evaluation returns the last validation in an environment as the result of an evaluation, from the
// recorded episodes. missing is the reason if there is none.
func (r *Run) evaluation(env string) (result *eval.Result, missing string, err error) {
	v := r.lastValidation()
	if v == nil || !slices.ContainsFunc(v.Results, func(x rundir.Result) bool { return x.Env == env }) {
		return nil, fmt.Sprintf("%s has no validation in %s", r.Name, env), nil
	}
	file := ""
	for _, label := range []string{v.Label, rundir.StepLabel(v.Step), rundir.LabelAfter} {
		name := fmt.Sprintf("val_%s_%s.jsonl", strings.ReplaceAll(label, " ", "_"), env)
		if i := slices.IndexFunc(r.Rollouts, func(f string) bool { return f == name || f == name+".zst" }); i >= 0 {
			file = r.Rollouts[i]
			break
		}
	}
	if file == "" {
		return nil, fmt.Sprintf("%s has not kept the episodes of its validation (%s)", r.Name, v.Label), nil
	}
	episodes, err := dump.ReadFile(filepath.Join((&rundir.Folder{Dir: r.Folder}).Rollouts(), file))
	if err != nil {
		return nil, "", fmt.Errorf("read the validation of %s: %w", r.Name, err)
	}
	if len(episodes) == 0 {
		return nil, fmt.Sprintf("%s has no episodes in %s", r.Name, file), nil
	}
	parts := map[string]string{"env": env}
	for _, s := range r.Config {
		key, own := strings.CutPrefix(s.Key, "env."+env+".")
		if own && key != "tasks" && key != "weight" && key != "expert_tasks" ||
			slices.ContainsFunc(conditions, func(p string) bool { return strings.HasPrefix(s.Key, p) }) {
			parts[s.Key] = s.Value
		}
	}
	tasks, most := eval.Tasks(episodes, nil), 0
	for _, t := range tasks {
		most = max(most, len(t.Trials))
	}
	out := eval.New(env, tasks, most, 1)
	out.Contract = eval.NewContract(parts)
	return &out, "", nil
}

// String returns the comparison for a terminal.
func (c Comparison) String() string {
	var b strings.Builder
	runs := [][]string{{"run", "state", "step", "success", "best validation"}}
	for _, f := range c.Runs {
		r := f.Row(time.Time{})
		runs = append(runs, []string{r.Name, r.State, r.Steps, r.Success, r.Best})
	}
	b.WriteString(textwidth.Table("llrrl", runs))
	verb := "differ"
	if len(c.Differences) == 1 {
		verb = "differs"
	}
	fmt.Fprintf(&b, "\n%s %s\n", textwidth.Count(len(c.Differences), "setting"), verb)
	own := c.ownEnvs()
	if len(own) > 0 {
		b.WriteString("Of environments that some runs lack, only name, tasks and val_tasks are listed; --json lists all.\n")
	}
	for _, d := range c.Differences {
		if slices.ContainsFunc(own, func(env string) bool {
			key, ok := strings.CutPrefix(d.Key, env)
			return ok && key != "name" && key != "tasks" && key != "val_tasks"
		}) {
			continue
		}
		fmt.Fprintf(&b, "  %s\n", d.Key)
		values := [][]string{}
		for i, v := range d.Values {
			values = append(values, []string{"  " + c.Runs[i].Name, cmp.Or(v, `""`)})
		}
		b.WriteString(textwidth.Table("lt", values))
	}
	if len(c.Results) > 0 {
		results := [][]string{{"run", "when", "env", "success", "95% interval", "score", "turns", "episodes"}}
		for _, r := range c.Results {
			results = append(results, append([]string{r.Run, r.Label}, cells(r.Result)...))
		}
		b.WriteString("\nlast validations\n" + textwidth.Table("lllrrrrr", results))
	}
	for _, p := range c.Pairs {
		fmt.Fprintf(&b, "\nA = %s, B = %s\n", p.A, p.B)
		if p.Missing != "" {
			fmt.Fprintf(&b, "no comparison by tasks in %s: %s\n", p.Env, p.Missing)
			continue
		}
		if a, z := c.lastStep(p.A, p.Env), c.lastStep(p.B, p.Env); a != z {
			fmt.Fprintf(&b, "the last validations are of different steps: %d and %d\n", a, z)
		}
		b.WriteString(p.Comparison.String())
	}
	if slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.Missing == "" }) {
		b.WriteString("\nA difference whose interval contains 0 may be chance. The intervals cover the choice of tasks, not the seed of the training.\n")
	}
	return b.String()
}

// ownEnvs returns the beginnings of the settings of environments that some runs lack.
func (c Comparison) ownEnvs() []string {
	var own []string
	for _, d := range c.Differences {
		env, ok := strings.CutSuffix(d.Key, "name")
		if ok && strings.HasPrefix(env, "env.") && strings.HasSuffix(env, ".") && slices.Contains(d.Values, "") {
			own = append(own, env)
		}
	}
	return own
}

// lastStep returns the step of the last validation of a run in an environment.
func (c Comparison) lastStep(run, env string) int {
	i := slices.IndexFunc(c.Results, func(r RunResult) bool { return r.Run == run && r.Env == env })
	if i < 0 {
		return 0
	}
	return c.Results[i].Step
}
