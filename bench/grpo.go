package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/process"
	"github.com/openmanus/openmanus/torch"
)

// The work of a step on both sides. Our side is `openmanus train` with episodes of
// one turn on the built-in maze; the peer receives the token ids of the same prompts.
// End tokens are ignored, so that every reply has grpoNew tokens. All replies fail in
// the maze, but training needs different rewards within a group. The reward therefore
// depends on the number of characters.
const (
	grpoNew      = 64
	grpoContext  = 320 // tokens; a prompt of the maze has about 200
	grpoRank     = 16
	grpoAlpha    = 32
	grpoLR       = 1e-6
	grpoLow      = 0.2
	grpoHigh     = 0.28
	grpoDecay    = 0.01
	grpoGradClip = 1
	grpoReward   = -0.001 // reward per character
	grpoSteps    = 2      // measured steps per process, after one warm-up step
)

// GRPOWork is the work of a step: Group replies to each of Tasks prompts, a group in every pass.
type GRPOWork struct {
	Tasks int         `json:"tasks"`
	Group int         `json:"group"`
	Rank  int         `json:"lora_rank,omitempty"` // of the adapters; 0: train all weights
	Type  torch.DType `json:"-"`                   // of the arithmetic
}

// grpoTrials returns the steps that bench measures; full: those of docs/results.md.
func grpoTrials(full bool) []GRPOWork {
	if full {
		return []GRPOWork{{Tasks: 8, Group: 8, Type: torch.Float32}, {Tasks: 8, Group: 8, Type: torch.BFloat16}}
	}
	return []GRPOWork{{Tasks: 2, Group: 4, Type: torch.Float32}, {Tasks: 2, Group: 4, Rank: grpoRank, Type: torch.Float32}}
}

// chosenTrials returns the steps of the type that the user chose, or of all types.
func chosenTrials(o options) ([]GRPOWork, error) {
	trials := slices.DeleteFunc(grpoTrials(o.full), func(w GRPOWork) bool { return o.typed && w.Type != o.dtype })
	if len(trials) == 0 {
		return nil, fmt.Errorf("grpo has steps in %v only with --full", o.dtype)
	}
	return trials, nil
}

func (w GRPOWork) rows() int { return w.Tasks * w.Group }

func (w GRPOWork) name() string {
	trained := "all weights"
	if w.Rank > 0 {
		trained = fmt.Sprintf("LoRA, rank %d", w.Rank)
	}
	return fmt.Sprintf("%d x %d, %s, %v", w.Tasks, w.Group, trained, w.Type)
}

// bound returns the shortest time of a step, in seconds: each prompt read once, all replies decoded at once, and an update in which each prompt is
// computed once too.
func (w GRPOWork) bound(work Work, m Machine, prompt int) float64 {
	flops := float64(w.Tasks)*work.read(prompt, 0) + float64(w.rows())*(work.read(grpoNew, prompt)+grpoNew*work.head)
	return work.prefill(m, w.Tasks, prompt, 0) + work.steps(m, w.rows(), grpoNew-1, prompt) + 3*flops/(m.GFLOPs*1e9)
}

// GRPO compares the GRPO steps of openmanus and TRL.
type GRPO struct {
	Versions *TRLVersions `json:"trl,omitempty"`
	Trials   []GRPOTrial  `json:"trials"`
}

// GRPOTrial compares one kind of step on both sides.
type GRPOTrial struct {
	GRPOWork
	Name   string    `json:"name"`
	Ours   GRPOSide  `json:"ours"`
	Peer   *GRPOSide `json:"peer,omitempty"`
	Time   float64   `json:"time_ratio,omitempty"`   // ours / TRL's; below 1, openmanus is faster
	Memory float64   `json:"memory_ratio,omitempty"` // ours / TRL's; below 1, openmanus uses less memory
	Bound  float64   `json:"bound_s,omitempty"`      // shortest time that the machine allows
	Share  float64   `json:"share,omitempty"`        // bound / ours
}

// GRPOSide has the times and the memory of the processes of one side.
type GRPOSide struct {
	Steps   []float64 `json:"step_seconds"` // all steps but the first of each process
	Turns   []float64 `json:"turn_seconds"` // the median step of each process
	Seconds float64   `json:"seconds"`      // the median of all steps
	// PeakBytes is the peak memory of a process: for our process from its start,
	// for TRL's from the end of loading its model.
	PeakBytes    int64 `json:"peak_bytes"`
	PromptTokens int   `json:"prompt_tokens"`
	NewTokens    int   `json:"new_tokens"` // per step
}

// measureGRPO measures each kind of step. Each round runs one process per
// side; the sides alternate in running first. Without python it measures our side only.
func measureGRPO(ctx context.Context, o options, trials []GRPOWork, dir string, log io.Writer) (g GRPO, err error) {
	model, err := filepath.Abs(o.model)
	if err != nil {
		return g, err
	}
	for i, work := range trials {
		t := GRPOTrial{GRPOWork: work, Name: work.name()}
		var prompts [][]int32
		ours := func(turn int) error {
			fmt.Fprintf(log, "measuring GRPO, %s, turn %d of %d\n", t.Name, turn+1, o.rounds)
			side, asked, err := oursGRPO(ctx, o, model, filepath.Join(dir, fmt.Sprintf("trial_%d_turn_%d", i, turn)), work)
			if err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			prompts = asked
			return t.Ours.add(side)
		}
		peer := func(turn int) error {
			fmt.Fprintf(log, "measuring GRPO, %s, TRL, turn %d of %d\n", t.Name, turn+1, o.rounds)
			side, versions, err := peerGRPO(ctx, o, model, dir, work, prompts)
			if err != nil {
				return fmt.Errorf("%s by TRL: %w", t.Name, err)
			}
			if side.PromptTokens != t.Ours.PromptTokens || side.NewTokens != t.Ours.NewTokens {
				return fmt.Errorf("%s: the work differs: our step has %d prompt tokens and %d reply tokens, TRL's has %d and %d",
					t.Name, t.Ours.PromptTokens, t.Ours.NewTokens, side.PromptTokens, side.NewTokens)
			}
			if t.Peer == nil {
				t.Peer = &GRPOSide{}
			}
			g.Versions = &versions
			return t.Peer.add(side)
		}
		for turn := range o.rounds {
			order := []func(int) error{ours}
			if o.python != "" {
				order = append(order, peer)
			}
			if turn%2 == 1 {
				slices.Reverse(order)
			}
			for _, measure := range order {
				if err := measure(turn); err != nil {
					return g, err
				}
			}
		}
		if t.Peer != nil {
			t.Time, t.Memory = t.Ours.Seconds/t.Peer.Seconds, float64(t.Ours.PeakBytes)/float64(t.Peer.PeakBytes)
		}
		g.Trials = append(g.Trials, t)
	}
	return g, nil
}

// add merges the measurements of another process.
func (s *GRPOSide) add(one GRPOSide) error {
	if len(s.Steps) > 0 && (s.PromptTokens != one.PromptTokens || s.NewTokens != one.NewTokens) {
		return fmt.Errorf("the work differs: a step has %d prompt tokens and %d reply tokens, a step of the previous turn %d and %d",
			one.PromptTokens, one.NewTokens, s.PromptTokens, s.NewTokens)
	}
	s.PromptTokens, s.NewTokens = one.PromptTokens, one.NewTokens
	s.Turns = append(s.Turns, median(one.Steps))
	s.Steps = append(s.Steps, one.Steps...)
	s.Seconds = median(s.Steps)
	s.PeakBytes = max(s.PeakBytes, one.PeakBytes)
	return nil
}

// grpoConfig returns the configuration of our side.
func grpoConfig(model string, w GRPOWork, steps int) string {
	lora := ""
	if w.Rank > 0 {
		lora = fmt.Sprintf("lora_rank = %d\nlora_alpha = %d.0\n", w.Rank, grpoAlpha)
	}
	return fmt.Sprintf(`[model]
path = %q
device = "cpu"
compute_dtype = "%v"
%s
[[env]]
name = "maze"
tasks = "0-%d"
max_turns = 1
format = "react"
[data]
train_batch_size = %d
max_prompt_tokens = %d
shuffle = false
[rollout]
group_size = %d
max_new_tokens = %d
max_context_tokens = %d
max_sequences = %d
ignore_eos = true
[reward.components.characters]
fn = "length"
unit = "characters"
max_length = 1
weight = %g
[algo]
adv_estimator = "grpo"
[actor]
mini_batch_size = 0
micro_batch_size = %d
clip_ratio_low = %g
clip_ratio_high = %g
calculate_entropy = true # of every token, as TRL's loss does
grad_clip = %d.0
[actor.optim]
lr = %g
weight_decay = %g
[trainer]
experiment = "grpo"
total_steps = %d
save_every = 0
test_every = 0
val_before_train = false
`, model, w.Type, lora, w.Tasks-1, w.Tasks, grpoContext-grpoNew-1, w.Group, grpoNew, grpoContext, w.rows(), grpoReward, w.Group, grpoLow, grpoHigh,
		grpoGradClip, grpoLR, grpoDecay, steps)
}

// oursGRPO trains with openmanus. It also returns the prompts, one per task.
func oursGRPO(ctx context.Context, o options, model, out string, w GRPOWork) (side GRPOSide, prompts [][]int32, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return side, nil, err
	}
	file := filepath.Join(out, "grpo.toml")
	if err := os.WriteFile(file, []byte(grpoConfig(model, w, grpoSteps+1)), 0o644); err != nil {
		return side, nil, err
	}
	cmd := process.Command(ctx, o.program, "train", file, "--set", "trainer.output_dir="+out)
	cmd.Env = append(os.Environ(), fmt.Sprintf("OMP_NUM_THREADS=%d", o.threads))
	if side.PeakBytes, _, err = peakOf(cmd); err != nil {
		return side, nil, err
	}
	run := filepath.Join(out, "grpo")
	err = track.Read(filepath.Join(run, "metrics.jsonl"), func(l track.Line) error {
		step, m := l.Step, l.Metrics
		if l.Phase != track.PhaseTrain || step == 0 {
			return nil
		}
		if n := m[track.UpdatedRows]; n != float64(w.rows()) {
			return fmt.Errorf("step %d learned from %g of %d episodes", step, n, w.rows())
		}
		sampled := int(m[track.SampledTokens])
		if sampled != w.rows()*grpoNew {
			return fmt.Errorf("step %d sampled %d tokens, want %d", step, sampled, w.rows()*grpoNew)
		}
		side.PromptTokens, side.NewTokens = int(m[track.RolloutTokens])-sampled, sampled
		if step > 1 {
			side.Steps = append(side.Steps, m[track.TimingStep])
		}
		return nil
	})
	if err != nil {
		return side, nil, err
	}
	if len(side.Steps) != grpoSteps {
		return side, nil, fmt.Errorf("metrics.jsonl has %d steps after the first, want %d", len(side.Steps), grpoSteps)
	}
	prompts, err = promptsOf(filepath.Join(run, "rollouts", "step_1.jsonl"), w.Tasks)
	return side, prompts, err
}

// promptsOf returns the token ids before the first reply, one list per task.
func promptsOf(path string, tasks int) ([][]int32, error) {
	d, err := dump.Open(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var prompts [][]int32
	seen := map[string][]int32{}
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(e.Turns) != 1 {
			return nil, fmt.Errorf("%s: an episode has %d turns, want 1", path, len(e.Turns))
		}
		prompt := e.Tokens[:e.Turns[0].Start]
		if before, ok := seen[e.Task.ID]; !ok {
			seen[e.Task.ID] = prompt
			prompts = append(prompts, prompt)
		} else if !slices.Equal(before, prompt) {
			return nil, fmt.Errorf("%s: two episodes of %s have different prompts", path, e.Task.ID)
		}
	}
	if len(prompts) != tasks {
		return nil, fmt.Errorf("%s has the prompts of %d tasks, want %d", path, len(prompts), tasks)
	}
	return prompts, nil
}

// peakOf runs a process and returns its peak memory and its stdout. The new
// process is forked from this one, so the peak is at least the memory of this process,
// which is small compared to a model in training.
func peakOf(cmd *exec.Cmd) (peak int64, stdout []byte, err error) {
	var out, says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &says
	if err := cmd.Run(); err != nil {
		return 0, nil, fmt.Errorf("%w\n%s%s", err, &out, &says)
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, nil, errors.New("the system does not report the peak memory of a process")
	}
	return used.Maxrss * 1024, out.Bytes(), nil
}

func (g *GRPO) print(w io.Writer, threads int) error {
	first := g.Trials[0].Ours
	peer := ""
	if v := g.Versions; v != nil {
		peer = fmt.Sprintf(", against TRL %s on transformers %s and torch %s", v.TRL, v.Transformers, v.Torch)
	}
	fmt.Fprintf(w, "\nGRPO steps (prompts x replies), %d threads, median of %d turns of %d steps after one (fastest and slowest turn)%s\n", threads, len(first.Turns), grpoSteps, peer)
	fmt.Fprintf(w, "  replies of %d tokens, one update of all, a group a pass, no KL\n\n", grpoNew)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	head := []string{"  ", "openmanus", "TRL", "ours / theirs", "openmanus", "TRL", "ours / theirs"}
	if g.Versions == nil {
		head = []string{"  ", "openmanus", "openmanus"}
	}
	if g.Trials[0].Bound > 0 {
		head = append(head, "bound", "share")
	}
	fmt.Fprintln(table, strings.Join(head, "\t"))
	for _, t := range g.Trials {
		cells := []string{"  " + t.Name, t.Ours.time()}
		if t.Peer != nil {
			cells = append(cells, t.Peer.time(), fmt.Sprintf("%.2f", t.Time))
		}
		cells = append(cells, fmt.Sprintf("%.0f MB", float64(t.Ours.PeakBytes)/1e6))
		if t.Peer != nil {
			cells = append(cells, fmt.Sprintf("%.0f MB", float64(t.Peer.PeakBytes)/1e6), fmt.Sprintf("%.2f", t.Memory))
		}
		if t.Bound > 0 {
			cells = append(cells, fmt.Sprintf("%.2f s", t.Bound), fmt.Sprintf("%.0f %%", 100*t.Share))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "  seconds per step and peak memory of a process (TRL: once its model is loaded); a ratio below 1 means less than TRL")
	return nil
}

// time formats the median time of a step and the range of the medians of the processes.
func (s *GRPOSide) time() string {
	return fmt.Sprintf("%.2f s (%.2f-%.2f)", s.Seconds, slices.Min(s.Turns), slices.Max(s.Turns))
}
