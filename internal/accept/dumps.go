package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/data/table"
)

// kills is the number of times that a rollout is killed before it runs to its end.
const kills = 2

// Dumps is the result for rollouts that were killed, continued and replayed.
type Dumps struct {
	Model  string    `json:"model"`
	Trials []DumpRun `json:"trials"`
	Sound  bool      `json:"sound"`
}

// DumpRun is the result for one dump.
type DumpRun struct {
	Name     string   `json:"name"`
	Episodes int      `json:"episodes"`
	KilledAt []int    `json:"killed_at"` // number of episodes in the dump at each kill
	Missing  int      `json:"missing"`
	Twice    int      `json:"twice"`
	Replay   verdicts `json:"replay"`
	Changed  verdicts `json:"changed"` // after one character of a reply was changed
	Found    bool     `json:"found"`   // the replay reports exactly the changed episode
	Seconds  float64  `json:"seconds"`
}

// verdicts has the fields of `openmanus replay --json` that are judged.
type verdicts struct {
	Replayed    int     `json:"replayed"`
	Differ      int     `json:"differ"`
	NearTies    int     `json:"near_ties"`
	IDs         int     `json:"ids"`
	MaxGap      float64 `json:"max_logprob_gap"`
	Differences []struct {
		Episode int    `json:"episode"`
		What    string `json:"what"`
	} `json:"differences"`
}

func (r *DumpRun) sound() bool {
	return r.Missing == 0 && r.Twice == 0 && len(r.KilledAt) == kills && r.Replay.Replayed == r.Episodes &&
		r.Replay.Differ == 0 && r.Replay.NearTies == 0 && r.Found
}

// dumpTrial has the settings of a trial.
type dumpTrial struct {
	program, model, dir string
	tasks, samples      int
	log                 io.Writer
}

func runDumps(ctx context.Context, o *options, _ []string, log io.Writer) (result, error) {
	if o.episodes < 20 {
		return nil, errors.New("--episodes must be at least 20: otherwise the rollout ends before it is killed")
	}
	return inFolder("", func(dir string) (result, error) { return measureDumps(ctx, o.program, o.model, dir, o.episodes, log) })
}

// mazeStarts is the number of cells that an episode of the maze can start from.
const mazeStarts = 25

// measureDumps makes a trial with a plain dump and one with a compressed dump. Without a model it creates one of the quickstart's shape.
func measureDumps(ctx context.Context, program, modelPath, dir string, episodes int, log io.Writer) (*Dumps, error) {
	d := &Dumps{Model: modelPath, Sound: true}
	if modelPath == "" {
		d.Model = "fresh, of the quickstart's shape"
		var err error
		if modelPath, err = freshModel(ctx, program, filepath.Join(dir, "model")); err != nil {
			return nil, err
		}
	}
	t := dumpTrial{program: program, model: modelPath, dir: dir, tasks: min(mazeStarts, episodes), log: log}
	t.samples = (episodes + t.tasks - 1) / t.tasks
	for i, name := range []string{"episodes.jsonl", "episodes.jsonl.zst"} {
		r, err := t.run(ctx, name, rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano()))))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		d.Trials = append(d.Trials, r)
		d.Sound = d.Sound && r.sound()
	}
	return d, nil
}

// freshModel makes a model of the quickstart's shape with nearly random weights
// and returns its folder. It trains for one step: only training writes models.
func freshModel(ctx context.Context, program, out string) (string, error) {
	metrics, _, err := trainSeed(ctx, program, out, 1, 0, []string{
		"model.fresh.walks=1", "sft.epochs=0", "trainer.total_steps=1", "env.val_tasks=[]", "trainer.test_every=0", "trainer.val_before_train=false",
	})
	if err != nil {
		return "", fmt.Errorf("make a model: %w", err)
	}
	return filepath.Join(filepath.Dir(metrics), "checkpoints", "step_000001", "actor"), nil
}

func (t *dumpTrial) rollout(ctx context.Context, path string) *exec.Cmd {
	return exec.CommandContext(ctx, t.program, "rollout", "--model", t.model, "--env", "maze", "--tasks", fmt.Sprintf("0-%d", t.tasks-1),
		"--samples", fmt.Sprint(t.samples), "--max-turns", "4", "--max-new-tokens", "12", "--concurrency", "8", "--deterministic",
		"--dump", path, "--continue", "--quiet")
}

// run kills a rollout, continues and replays it, and replays it with one character
// changed.
func (t *dumpTrial) run(ctx context.Context, name string, rng *rand.Rand) (DumpRun, error) {
	path := filepath.Join(t.dir, name)
	r := DumpRun{Name: name, Episodes: t.tasks * t.samples}
	began := time.Now()
	for k := range kills {
		// Divide the rollout into equal parts, and kill it at a random moment of each.
		at := r.Episodes * (k*40 + 5 + rng.IntN(30)) / 100
		held, err := t.killed(ctx, path, at, time.Duration(rng.Int64N(int64(200*time.Millisecond))))
		if err != nil {
			return r, err
		}
		fmt.Fprintf(t.log, "%s: killed with %d episodes\n", name, held)
		r.KilledAt = append(r.KilledAt, held)
	}
	if text, err := t.rollout(ctx, path).CombinedOutput(); err != nil {
		return r, fmt.Errorf("continue: %w\n%s", err, text)
	}
	header, episodes, err := readDump(path)
	if err != nil {
		return r, err
	}
	r.Missing, r.Twice = countFaults(episodes, r.Episodes)
	if r.Replay, err = t.replay(ctx, path); err != nil {
		return r, err
	}
	at := rng.IntN(len(episodes))
	if err := changeReply(episodes[at]); err != nil {
		return r, err
	}
	changed := filepath.Join(t.dir, "changed-"+name)
	if err := dump.WriteFile(changed, header, episodes); err != nil {
		return r, err
	}
	if r.Changed, err = t.replay(ctx, changed); err != nil {
		return r, err
	}
	r.Found = r.Changed.Differ == 1 && r.Changed.Differences[0].Episode == at
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// killed starts a rollout and kills it shortly after its dump has the given number of episodes. It returns the number of episodes in the dump.
func (t *dumpTrial) killed(ctx context.Context, path string, episodes int, after time.Duration) (int, error) {
	cmd := t.rollout(ctx, path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	early := func(err error) (int, error) {
		return 0, fmt.Errorf("the rollout ended before it could be killed (raise --episodes): %v\n%s", err, &out)
	}
	for {
		held, err := held(path)
		if err == nil && held >= episodes {
			break
		}
		select {
		case err := <-done:
			return early(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	select {
	case err := <-done:
		return early(err)
	case <-time.After(after):
	}
	if err := cmd.Process.Kill(); err != nil {
		return early(err)
	}
	<-done
	return held(path)
}

func held(path string) (int, error) {
	_, episodes, err := readDump(path)
	return len(episodes), err
}

func readDump(path string) (dump.Header, []*data.Episode, error) {
	var episodes []*data.Episode
	src, err := table.ReadSource(context.Background(), path, func(e *table.Entry) error {
		if e.Episode == nil {
			return fmt.Errorf("%s is not a dump", path)
		}
		episodes = append(episodes, e.Episode)
		return nil
	})
	return src.Header, episodes, err
}

// countFaults returns the numbers of missing and of repeated episodes.
func countFaults(episodes []*data.Episode, want int) (missing, twice int) {
	seen := map[string]bool{}
	for _, e := range episodes {
		key := fmt.Sprintf("%s %d", e.UID, e.Sample)
		if seen[key] {
			twice++
		}
		seen[key] = true
	}
	return want - len(seen), twice
}

// changeReply changes one character of the last observation.
func changeReply(e *data.Episode) error {
	if len(e.Exchanges) == 0 {
		return errors.New("an episode has no exchanges")
	}
	reply := &e.Exchanges[len(e.Exchanges)-1].Reply
	at := strings.LastIndex(*reply, "goal")
	if at < 0 {
		return fmt.Errorf("the reply %q does not mention a goal", *reply)
	}
	*reply = (*reply)[:at] + "c" + (*reply)[at+1:]
	return nil
}

// replay runs openmanus replay. Exit code 8 reports differences and is no error.
func (t *dumpTrial) replay(ctx context.Context, path string) (v verdicts, err error) {
	cmd := exec.CommandContext(ctx, t.program, "replay", path, "--json", "--quiet")
	var out, says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &says
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 8 {
		err = nil
	}
	if err != nil {
		return v, fmt.Errorf("replay: %w\n%s", err, &says)
	}
	return v, json.Unmarshal(out.Bytes(), &v)
}

func (d *Dumps) kept() bool { return d.Sound }

func (d *Dumps) print(w io.Writer) error {
	fmt.Fprintf(w, "dumps: rollouts killed with -9, continued, and replayed without a server; %s\n", d.Model)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  dump\tepisodes\tkilled at\tmissing\ttwice\tids\tdiffer\tnear ties\tlog-prob gap\tchange found\tseconds")
	for _, r := range d.Trials {
		fmt.Fprintf(table, "  %s\t%d\t%v\t%d\t%d\t%d\t%d\t%d\t%.3g\t%t\t%.0f\n", r.Name, r.Episodes, r.KilledAt, r.Missing, r.Twice,
			r.Replay.IDs, r.Replay.Differ, r.Replay.NearTies, r.Replay.MaxGap, r.Found, r.Seconds)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "  every episode once, no difference, one changed character found: %s\n", verdict(d.Sound))
	return err
}
