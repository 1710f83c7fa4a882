package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// methodAfter is the lowest accepted success rate on the quickstart's held-out cells.
const methodAfter = 0.9

// testEvery is the number of steps between validations.
const testEvery = 4

// method is a variant of the quickstart: the same model, warm start, cells and
// episodes per step, with other settings of learning.
type method struct {
	name string
	sets []string
}

// methods are measured in this order. A method with the name of a preset has the
// preset's [algo] section. Learning rates and numbers of steps suit the small model.
var methods = []method{
	{"ppo", []string{
		"algo.adv_estimator=gae", "critic.mini_batch_size=35", "critic.micro_batch_size=35", "critic.optim.lr=5e-4",
		"trainer.critic_warmup=3",
	}},
	{"grpo", nil}, // the quickstart itself
	{"rloo", []string{"algo.adv_estimator=rloo"}},
	{"reinforce_plus_plus", []string{
		"algo.adv_estimator=reinforce_plus_plus", "algo.use_kl_in_reward=true", "trainer.total_steps=40",
	}},
	{"gigpo", []string{"algo.adv_estimator=gigpo", "algo.gamma=0.95"}},
}

// methodsNamed returns the named methods, or all if names is empty.
func methodsNamed(names []string) ([]method, error) {
	if len(names) == 0 {
		return methods, nil
	}
	var known []string
	for _, m := range methods {
		known = append(known, m.name)
	}
	var out []method
	for i, name := range names {
		at := slices.Index(known, name)
		if at < 0 {
			return nil, fmt.Errorf("unknown method %q; use one of %s", name, strings.Join(known, ", "))
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		out = append(out, methods[at])
	}
	return out, nil
}

// Methods is the result of the quickstart with several methods.
type Methods struct {
	Runs   []MethodRun `json:"runs"`
	Learns bool        `json:"learns"` // every run reached methodAfter
}

// MethodRun is the result of one method with one seed.
type MethodRun struct {
	Method string `json:"method"`
	Run
	Reached *int     `json:"reached"`            // the first step validated with at least methodAfter; null: none
	Steps   int      `json:"steps"`              // steps of the run
	Changed []string `json:"settings,omitempty"` // differences from the quickstart
}

func (r *MethodRun) learns() bool { return r.Before <= mostBefore && r.After >= methodAfter }

func runEstimators(ctx context.Context, o *options, names []string, log io.Writer) (result, error) {
	chosen, err := methodsNamed(names)
	if err != nil {
		return nil, err
	}
	return inFolder(o.keep, func(dir string) (result, error) {
		return measureMethods(ctx, o.program, dir, chosen, o.seeds, o.jobs, log)
	})
}

// measureMethods trains with each method and the seeds 1 to n, several runs at a
// time, in folders under dir.
func measureMethods(ctx context.Context, program, dir string, chosen []method, n, jobs int, log io.Writer) (*Methods, error) {
	l := &Methods{Runs: make([]MethodRun, len(chosen)*n)}
	var mu sync.Mutex // guards log
	err := several(ctx, len(l.Runs), jobs, func(ctx context.Context, i, threads int) error {
		m, seed := chosen[i/n], i%n+1
		out := filepath.Join(dir, fmt.Sprintf("%s_seed_%d", m.name, seed))
		r, found, err := quickstart(ctx, program, out, seed, threads, append([]string{fmt.Sprintf("trainer.test_every=%d", testEvery)}, m.sets...)...)
		if err != nil {
			return fmt.Errorf("%s, seed %d: %w", m.name, seed, err)
		}
		mr := MethodRun{Method: m.name, Run: r, Reached: reached(found, methodAfter), Steps: found[len(found)-1].Step, Changed: m.sets}
		l.Runs[i] = mr
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(log, "%s, seed %d: %.3f before, %.3f after %d steps, %.0f s\n", m.name, seed, r.Before, r.After, mr.Steps, r.Seconds)
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.judge()
	return l, nil
}

// reached returns the step of the first validation after the start of training
// whose success rate is at least the argument success, or nil.
func reached(found []validated, success float64) *int {
	for _, v := range found {
		if v.Step > 0 && v.Success >= success {
			return &v.Step
		}
	}
	return nil
}

func (l *Methods) judge() {
	l.Learns = len(l.Runs) > 0
	for i := range l.Runs {
		l.Learns = l.Learns && l.Runs[i].learns()
	}
}

func (l *Methods) kept() bool { return l.Learns }

func (l *Methods) print(w io.Writer) error {
	fmt.Fprintf(w, "estimators: success on held-out start cells, validated every %d steps\n", testEvery)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "  method\tseed\tbefore\tafter\tsteps to %.1f\tsteps\tseconds\t\n", methodAfter)
	for _, r := range l.Runs {
		first, word := "never", ""
		if r.Reached != nil {
			first = fmt.Sprint(*r.Reached)
		}
		if !r.learns() {
			word = "NOT kept"
		}
		fmt.Fprintf(table, "  %s\t%d\t%.3f\t%.3f\t%s\t%d\t%.0f\t%s\n", r.Method, r.Seed, r.Before, r.After, first, r.Steps, r.Seconds, word)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var listed []string
	for _, r := range l.Runs {
		if len(r.Changed) > 0 && !slices.Contains(listed, r.Method) {
			listed = append(listed, r.Method)
			fmt.Fprintf(w, "  %s is the quickstart with %s\n", r.Method, strings.Join(r.Changed, " "))
		}
	}
	_, err := fmt.Fprintf(w, "  each at most %.2f before and at least %.2f after: %s\n", mostBefore, methodAfter, verdict(l.Learns))
	return err
}
