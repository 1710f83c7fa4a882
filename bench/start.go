package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/internal/process"
)

// Start has the seconds of a process of openmanus that makes one optimiser step of a tiny model and ends, and of one that only imports TRL.
type Start struct {
	Ours       []float64 `json:"first_step_seconds"`
	Import     []float64 `json:"import_trl_seconds,omitempty"`
	OursMedian float64   `json:"first_step_s"`
	PeerMedian float64   `json:"import_trl_s,omitempty"`
	Ratio      float64   `json:"ratio,omitempty"` // ours / TRL's; at most startRatio is the aim
}

// startRatio is the largest ratio that is aimed at.
const startRatio = 0.2

// startConfig is a GRPO step of a fresh model: one prompt of the maze, eight short replies with rewards that differ.
const startConfig = `[model]
device = "cpu"
[model.fresh]
layers = 2
hidden_size = 64
intermediate_size = 128
heads = 2
kv_heads = 2
vocabulary = "bytes"
[[env]]
name = "maze"
tasks = "0"
max_turns = 1
format = "react"
[data]
train_batch_size = 1
max_prompt_tokens = 2000
[rollout]
group_size = 8
max_new_tokens = 16
max_context_tokens = 2048
ignore_eos = true
[reward.components.characters]
fn = "length"
unit = "characters"
max_length = 1
weight = -0.001
[algo]
adv_estimator = "grpo"
[actor]
mini_batch_size = 0
[trainer]
experiment = "start"
total_steps = 1
save_every = 0
test_every = 0
val_before_train = false
`

// measureStart runs both processes in turns, once to fill the page cache and then in the given number of rounds.
func measureStart(ctx context.Context, o options, dir string) (s Start, err error) {
	file := filepath.Join(dir, "start.toml")
	if err := os.WriteFile(file, []byte(startConfig), 0o644); err != nil {
		return s, err
	}
	for round := range o.rounds + 1 {
		out := filepath.Join(dir, fmt.Sprintf("start_%d", round))
		train := process.Command(ctx, o.program, "train", file, "--set", "trainer.output_dir="+out)
		took, err := elapsed(train)
		if err == nil {
			err = stepped(filepath.Join(out, "start", "metrics.jsonl"))
		}
		if err != nil {
			return s, fmt.Errorf("first step: %w", err)
		}
		if round > 0 {
			s.Ours = append(s.Ours, took)
		}
		if o.python == "" {
			continue
		}
		imports := process.Command(ctx, o.python, "-c", "import trl; trl.GRPOTrainer") // the class, because TRL imports its modules late
		imports.Env = peerEnv(o.threads)
		if took, err = elapsed(imports); err != nil {
			return s, fmt.Errorf("import TRL: %w", err)
		}
		if round > 0 {
			s.Import = append(s.Import, took)
		}
	}
	s.OursMedian = median(s.Ours)
	if len(s.Import) > 0 {
		s.PeerMedian = median(s.Import)
		s.Ratio = s.OursMedian / s.PeerMedian
	}
	return s, nil
}

// elapsed runs a process and returns its seconds.
func elapsed(cmd *exec.Cmd) (float64, error) {
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	return time.Since(began).Seconds(), nil
}

// stepped returns an error unless the run has updated the weights.
func stepped(metrics string) error {
	rows := 0.0
	err := track.Read(metrics, func(l track.Line) error {
		if l.Phase == track.PhaseTrain {
			rows += l.Metrics[track.UpdatedRows]
		}
		return nil
	})
	if err == nil && rows == 0 {
		err = errors.New("the step learned from no episode")
	}
	return err
}

func (s *Start) print() string {
	text := fmt.Sprintf("\nstart: a process of openmanus with one optimiser step of a tiny model %.2f s", s.OursMedian)
	if s.PeerMedian > 0 {
		text += fmt.Sprintf(", import trl %.2f s, ours / theirs %.2f (aim: at most %.1f)", s.PeerMedian, s.Ratio, startRatio)
	}
	return text + "\n"
}
