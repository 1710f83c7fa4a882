package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/internal/process"
)

const (
	// leastValidation is the least number of episodes of a validation whose interval is judged.
	leastValidation = 200
	// mostMinutes is the time that a run may take on two idle cores. Like mostSeconds, it is
	// reported and not judged.
	mostMinutes = 120
)

// Learns is the result of training a real model by lessons, each with several seeds.
type Learns struct {
	Model  string      `json:"model"`
	Runs   []LessonRun `json:"runs"`
	Learns bool        `json:"learns"` // every run learns
}

// LessonRun is the result of one lesson with one seed.
type LessonRun struct {
	Lesson   string   `json:"lesson"`
	Seed     int      `json:"seed"`
	Points   []Point  `json:"points"` // validations: the first before RL, the last at the end
	Minutes  float64  `json:"minutes"`
	Resumed  bool     `json:"resumed,omitempty"` // an earlier call began the run: Minutes is the time of this call only
	Settings []string `json:"settings"`          // changes of the lesson's configuration
}

// Point is a validation on held-out tasks.
type Point struct {
	Step     int     `json:"step"`
	Success  float64 `json:"success"`
	Low      float64 `json:"low"` // 95 % interval, see rundir.Wilson
	High     float64 `json:"high"`
	Episodes int     `json:"episodes"`
}

func (r *LessonRun) before() Point { return r.Points[0] }
func (r *LessonRun) after() Point  { return r.Points[len(r.Points)-1] }

// learns reports whether the interval at the end lies above the interval before RL, both of enough episodes.
func (r *LessonRun) learns() bool {
	b, a := r.before(), r.after()
	return min(b.Episodes, a.Episodes) >= leastValidation && a.Low > b.High
}

func learnsFlags(f *flag.FlagSet, o *options) {
	f.StringVar(&o.keep, "runs", "", "`FOLDER` for the runs; the same command continues the runs in it; empty: a temporary one")
	f.StringVar(&o.model, "model", "build/models/SmolLM2-135M-Instruct.gguf", "the model `FILE` or folder to train")
	f.StringVar(&o.curves, "curves", "", "`FOLDER` for a picture NAME.svg of each lesson's validations; empty: none")
	seedsFlag(f, o, 3)
	f.IntVar(&o.jobs, "jobs", 1, "runs at a time, which share the cores")
	f.Func("set", "`KEY=VALUE`, a setting of the runs in addition to the lesson's; may be repeated", o.addSet)
}

func runLearns(ctx context.Context, o *options, names []string, log io.Writer) (result, error) {
	chosen, err := lessonsNamed(names)
	if err != nil {
		return nil, err
	}
	program, err := filepath.Abs(o.program)
	if err != nil {
		return nil, err
	}
	model, err := filepath.Abs(o.model)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(model); err != nil {
		return nil, fmt.Errorf("the model: %w: fetch it with ./build.sh model, or give --model", err)
	}
	return inFolder(o.keep, func(dir string) (result, error) {
		l, err := measureLearns(ctx, program, model, dir, chosen, o, log)
		if err == nil && o.curves != "" {
			err = l.writeCurves(o.curves)
		}
		return l, err
	})
}

// measureLearns trains model by each lesson with the seeds 1 to o.seeds in folders under dir.
func measureLearns(ctx context.Context, program, model, dir string, chosen []lesson, o *options, log io.Writer) (*Learns, error) {
	l := &Learns{Model: filepath.Base(model), Runs: make([]LessonRun, len(chosen)*o.seeds)}
	var mu sync.Mutex // guards log
	err := several(ctx, len(l.Runs), o.jobs, func(ctx context.Context, i, threads int) error {
		c, seed := chosen[i/o.seeds], i%o.seeds+1
		r, err := c.train(ctx, program, model, filepath.Join(dir, fmt.Sprintf("%s_seed_%d", c.name, seed)), seed, threads, o.sets)
		if err != nil {
			return fmt.Errorf("%s, seed %d: %w", c.name, seed, err)
		}
		l.Runs[i] = *r
		b, a := r.before(), r.after()
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(log, "%s, seed %d: %.3f before, %.3f after %d steps, %.0f minutes\n", c.name, seed, b.Success, a.Success, a.Step, r.Minutes)
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.judge()
	return l, nil
}

// train trains model by the lesson in the folder dir. It continues an interrupted run, and reads the result of a
// complete one.
func (l lesson) train(ctx context.Context, program, model, dir string, seed, threads int, extra []string) (*LessonRun, error) {
	_, statErr := os.Stat(dir)
	r := &LessonRun{Lesson: l.name, Seed: seed, Resumed: statErr == nil}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	sets, err := l.prepare(dir, seed)
	if err != nil {
		return nil, err
	}
	r.Settings = slices.Concat(sets, extra)
	finished := filepath.Join(dir, "result.json")
	if found, err := readLessonRun(finished); err != nil || found != nil {
		if err == nil && !slices.Equal(found.Settings, r.Settings) {
			err = fmt.Errorf("%s has the result of a run with other settings: give --runs another folder", dir)
		}
		return found, err
	}
	args := []string{"train", l.base + ".toml"}
	for _, set := range slices.Concat([]string{"model.path=" + model, fmt.Sprintf("trainer.seed=%d", seed), fmt.Sprintf("data.seed=%d", seed)}, r.Settings) {
		args = append(args, "--set", set)
	}
	began := time.Now()
	cmd := process.Command(ctx, program, args...)
	cmd.Dir = dir // the files of the configuration are in it
	cmd.Env = append(os.Environ(), fmt.Sprintf("OMP_NUM_THREADS=%d", threads))
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	r.Minutes = time.Since(began).Minutes()
	if r.Points, err = points(filepath.Join(dir, "runs", l.base, "metrics.jsonl"), l.base); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	return r, os.WriteFile(finished, text, 0o644)
}

// readLessonRun reads the result of a complete run, or returns nil if there is none.
func readLessonRun(path string) (*LessonRun, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &LessonRun{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(r.Points) < 2 {
		return nil, fmt.Errorf("%s lists %d validations, want at least 2: remove the file", path, len(r.Points))
	}
	return r, nil
}

// points reads the validations of an environment. There must be one before the first step and one after.
func points(metrics, env string) (found []Point, err error) {
	err = track.Read(metrics, func(l track.Line) error {
		success, ok := l.Metrics["val/"+env+"/success_rate"]
		if !ok {
			return nil
		}
		n := l.Metrics["val/"+env+"/episodes"]
		p := Point{Step: l.Step, Success: success, Episodes: int(n)}
		p.Low, p.High = rundir.Wilson(success, n)
		found = append(found, p)
		return nil
	})
	if err == nil && (len(found) < 2 || found[0].Step != 0) {
		err = fmt.Errorf("%s must have a validation of %s before and one after training", metrics, env)
	}
	return found, err
}

func (l *Learns) judge() {
	l.Learns = len(l.Runs) > 0
	for i := range l.Runs {
		l.Learns = l.Learns && l.Runs[i].learns()
	}
}

func (l *Learns) kept() bool { return l.Learns }

func (l *Learns) print(w io.Writer) error {
	fmt.Fprintf(w, "learns: success of %s on held-out tasks, before RL and after, with 95 %% intervals\n", l.Model)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  lesson\tseed\tbefore\tinterval\tafter\tinterval\tepisodes\tsteps\tminutes\t")
	for i := range l.Runs {
		r := &l.Runs[i]
		b, a := r.before(), r.after()
		minutes, word := fmt.Sprintf("%.0f", r.Minutes), ""
		if r.Resumed {
			minutes += " since it was resumed"
		}
		if !r.learns() {
			word = "NOT kept"
		}
		fmt.Fprintf(table, "  %s\t%d\t%.3f\t%.3f - %.3f\t%.3f\t%.3f - %.3f\t%d\t%d\t%s\t%s\n",
			r.Lesson, r.Seed, b.Success, b.Low, b.High, a.Success, a.Low, a.High, min(b.Episodes, a.Episodes), a.Step, minutes, word)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "  each interval after above the one before, of at least %d episodes: %s (at most %d minutes a run expected on two idle cores; not judged)\n",
		leastValidation, verdict(l.Learns), mostMinutes)
	return err
}
