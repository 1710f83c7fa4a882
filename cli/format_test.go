package cli

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/data"
)

// What is trained is what was sampled: the training pass over rows, one a
// context, gives every sampled token the log-prob that it was sampled with,
// though the prompts of other turns are not in its row.
func TestContextsAreTrainedAsSampled(t *testing.T) {
	for name, sets := range map[string][]string{
		"history": {"env.maze.format=history", "env.maze.history_length=1"},
		"staged":  {"env.maze.format=staged"},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := opened(t, nil, tinyRun, append(sets, "model.fresh.vocabulary=bytes", "rollout.max_context_tokens=3000", "data.max_prompt_tokens=2000", "rollout.max_new_tokens=24")...)
			if err != nil {
				t.Fatal(err)
			}
			if err := tr.openSampler(t.Context()); err != nil {
				t.Fatal(err)
			}
			maze := tr.envs()[0]
			episodes, _, err := rollout.RunEpisodes(t.Context(), map[string]rollout.Env{"maze": maze.Train}, maze.TrainTasks,
				rollout.Options{GroupSize: 3, Concurrency: 6, Seed: 5, Deterministic: true})
			if err != nil {
				t.Fatal(err)
			}
			batch, err := data.BatchFromEpisodes(episodes)
			if err != nil {
				t.Fatal(err)
			}
			turns := 0
			for _, ep := range episodes {
				turns += len(ep.Turns)
			}
			if batch.Len() != turns || turns <= len(episodes) {
				t.Errorf("%d rows of %d turns in %d episodes", batch.Len(), turns, len(episodes))
			}
			err = data.ByEpisode(batch.Rows, func(episodes []data.Row) error {
				for i := range episodes { // a reward that differs within a group, whatever was played
					r := &episodes[i]
					r.Rewards = make([]float32, len(r.Tokens))
					r.Rewards[r.Turns[len(r.Turns)-1].End-1] = float32(r.Sample)
				}
				return nil
			})
			if err == nil {
				err = advantage.Compute("grpo", batch.Rows, advantage.Options{NormByStd: true})
			}
			if err != nil {
				t.Fatal(err)
			}
			err = algo.LogProbs(t.Context(), tr.actor.Compute(), batch.Rows, algo.MicroBatching{Rows: 2}, 1, func(r *data.Row) *[]float32 { return &r.OldLogProbs })
			if err != nil {
				t.Fatal(err)
			}
			st, err := tr.actor.UpdateActor(t.Context(), batch.Rows, 1e-4, algo.PolicyOptions{
				MiniBatch: 2, Micro: algo.MicroBatching{Rows: 2}, Loss: "vanilla", LossOptions: loss.Options{ClipLow: .2, ClipHigh: .2, ClipC: 3},
				Agg: loss.TokenMean, Temperature: 1, GradClip: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			if st.Steps != 3 || !(st.GradNorm > 0) { // six episodes, however many contexts
				t.Errorf("%d optimiser steps, gradient norm %g", st.Steps, st.GradNorm)
			}
			if !(st.Gap.Max < 1e-3) {
				t.Errorf("log-probs of sampling and training differ by up to %g", st.Gap.Max)
			}
		})
	}
}

// A whole run in a format that writes its prompts anew, warm start included.
func TestTrainingInContexts(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "run.toml", tinyRun)
	args := []string{"train", "run.toml"}
	for _, set := range []string{
		"env.maze.format=history", "model.fresh.walks=0", "rollout.max_context_tokens=1024", "data.max_prompt_tokens=1000", "sft.max_length=1024",
		"sft.epochs=4", "trainer.total_steps=1", "trainer.test_every=1",
	} {
		args = append(args, "--set", set)
	}
	code, stdout, stderr := inProcess(t, dir, args...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	mustContain(t, "what to do next", stdout, "--format history")
	for _, name := range []string{"step_1", "val_after_maze"} {
		r, err := data.OpenDump(filepath.Join(dir, "runs/tiny/rollouts", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		n := 0
		for {
			ep, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
			if len(ep.Contexts) != len(ep.Turns) || len(ep.Turns) == 0 || len(ep.Turns[0].Prompt) == 0 {
				t.Errorf("%s: %d contexts of %d turns", name, len(ep.Contexts), len(ep.Turns))
			}
		}
		if n == 0 {
			t.Errorf("%s holds no episode", name)
		}
	}
}

// The solutions that a warm start learns from are told in the run's format.
func TestExpertsInContexts(t *testing.T) {
	tr, err := opened(t, nil, tinyRun, "env.maze.format=history", "env.maze.expert_tasks=17", "model.fresh.vocabulary=bytes")
	if err != nil {
		t.Fatal(err)
	}
	_, anew := tr.setups[0].Format.(agent.Prompting)
	if !anew || len(tr.experts) < 2 {
		t.Fatalf("%d conversations, format %s", len(tr.experts), tr.setups[0].Format.Name())
	}
	for i, task := range tr.experts {
		c := task.Conversation
		if len(c) != 2 || task.ID != "maze_17" || !strings.HasPrefix(c[1].Content, "<action>move ") || strings.Contains(c[0].Content, "step "+string(rune('1'+i))) != (i > 0) {
			t.Errorf("conversation %d of %s: %+v", i, task.ID, c)
		}
	}
}

func TestSummariesNeedAClient(t *testing.T) {
	_, err := opened(t, nil, tinyRun, "env.maze.format=history", "env.maze.use_summary=true", "agent.summary.base_url=http://127.0.0.1:1/v1", "rollout.deterministic=false")
	if codeOf(t.Context(), err) != ExitInput || !strings.Contains(err.Error(), "use_summary asks an endpoint") {
		t.Errorf("got %v", err)
	}
}
