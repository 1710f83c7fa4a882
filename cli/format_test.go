package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/env"
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
			err = learner.LogProbs(t.Context(), tr.actor.Compute(), batch.Rows, learner.MicroBatching{Rows: 2}, 1, func(r *data.Row) *[]float32 { return &r.OldLogProbs })
			if err != nil {
				t.Fatal(err)
			}
			st, err := tr.actor.UpdateActor(t.Context(), batch.Rows, 1e-4, learner.PolicyOptions{
				MiniBatch: 2, Micro: learner.MicroBatching{Rows: 2}, Loss: "vanilla", LossOptions: loss.Options{ClipLow: .2, ClipHigh: .2, ClipC: 3},
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
	mustContain(t, "what to do next", stdout, "runs/tiny/config.toml\n")
	mustContain(t, "the configuration it names", one(t, dir, "runs/tiny/config.toml"), `format = "history"`)
	for _, name := range []string{"step_1", "val_after_maze"} {
		r, err := dump.Open(filepath.Join(dir, "runs/tiny/rollouts", name+".jsonl"))
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

// Summaries come from the endpoint that the configuration names, with its key,
// and are what the model is shown; an endpoint that cannot give any is found
// out before anything is played.
func TestSummariesOfAnEndpoint(t *testing.T) {
	server := openaitest.Serve(t, func(n int, _ openaitest.Request) openaitest.Answer {
		return openaitest.Answer{Text: fmt.Sprintf("KeyEvents: note %d", n)}
	})
	sets := []string{
		"env.maze.format=history", "env.maze.use_summary=true", "agent.summary.model=writer", "agent.summary.max_tokens=77",
		"rollout.deterministic=false", "model.fresh.vocabulary=bytes", "rollout.max_context_tokens=3000", "data.max_prompt_tokens=2000", "sft.epochs=0", "env.maze.expert_tasks=",
		"model.fresh.walks=0",
	}
	tr, err := opened(t, nil, tinyRun, append(sets, "agent.summary.base_url="+server.URL)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.openSampler(t.Context()); err != nil {
		t.Fatal(err)
	}
	maze := tr.envs()[0]
	episodes, _, err := rollout.RunEpisodes(t.Context(), map[string]rollout.Env{"maze": maze.Train}, maze.TrainTasks,
		rollout.Options{GroupSize: 1, Concurrency: 2, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, ep := range episodes {
		for i, turn := range ep.Turns {
			text := turn.Prompt[0].Content
			if has := strings.Contains(text, "in short:\nKeyEvents: note "); has != (i > 1) {
				t.Errorf("turn %d of %s: is a summary shown? %v\n%s", i+1, ep.Task.ID, has, text)
			}
			shown++
		}
	}
	requests := server.Requests() // the first looks whether it is there
	if len(requests) != 1+shown-2*len(episodes) || len(requests) < 2 {
		t.Errorf("%d requests for %d turns of %d episodes", len(requests), shown, len(episodes))
	}
	if r := requests[len(requests)-1]; r.Model != "writer" || r.Raw["max_tokens"] != 77.0 || r.Raw["temperature"] != 0.1 || !strings.Contains(r.Last(), "KeyEvents") {
		t.Errorf("the endpoint was asked %+v", r)
	}

	gone := openaitest.Serve(t, func(int, openaitest.Request) openaitest.Answer { return openaitest.Answer{Status: 401, Body: "{}"} })
	if _, err := opened(t, nil, tinyRun, append(sets, "agent.summary.base_url="+gone.URL)...); err == nil || !strings.Contains(err.Error(), "agent.summary") {
		t.Errorf("an endpoint that refuses the key: %v", err)
	}
}

// The window and the words of prompts decide an evaluation's number.
func TestContractOfPrompts(t *testing.T) {
	parts := func(e configs.Env) map[string]string {
		t.Helper()
		ts := newTestState(t)
		spec, err := env.Lookup("maze")
		if err != nil {
			t.Fatal(err)
		}
		if e.MemoryFile != "" {
			writeFile(t, ts.Dir, e.MemoryFile, "old")
		}
		f, err := agent.FormatFor(e.Format, spec, agent.FormatOptions{HistoryLength: e.HistoryLength})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		if err := ts.addFormat(t.Context(), got, agent.Setup{Format: f, Spec: spec}, playOptions{Config: configs.Config{Env: []configs.Env{e}}}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := parts(configs.Env{Format: "react", HistoryLength: 2}); len(got) != 0 {
		t.Errorf("react has %v", got)
	}
	one, two := parts(configs.Env{Format: "history", HistoryLength: 1}), parts(configs.Env{Format: "history", HistoryLength: 2})
	staged := parts(configs.Env{Format: "staged", HistoryLength: 2, MemoryFile: "m.md"})
	if one["history_length"] != "1" || one["prompts"] == two["prompts"] || two["prompts"] == staged["prompts"] || staged["memory_file"] == "" {
		t.Errorf("%v, %v, %v", one, two, staged)
	}
}

// An episode of several contexts is drawn again id by id, each context from
// its own beginning, with the model and without.
func TestReplayOfContexts(t *testing.T) {
	tiny := tinyModel(t)
	for _, format := range []string{"history", "staged"} {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			link(t, tiny, dir, "m")
			code, _, stderr := inProcess(t, dir, "rollout", "--model", "m", "--device", "cpu", "--env", "maze", "--tasks", "17,18", "--format", format, "--history-length", "1",
				"--max-turns", "3", "--max-new-tokens", "8", "--dump", "d.jsonl", "--deterministic")
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			for _, how := range [][]string{{"--model", "m", "--device", "cpu"}, {"--no-model"}} {
				if code, out, stderr := inProcess(t, dir, append([]string{"replay", "d.jsonl"}, how...)...); code != 0 || !strings.Contains(out, "2 episodes replayed, 0 differ") {
					t.Errorf("%s: exit code %d\n%s%s", how, code, out, stderr)
				}
			}
			text := one(t, dir, "d.jsonl")
			changed := strings.Replace(text, "You have taken 2 steps", "You have taken 3 steps", 1)
			if changed == text {
				t.Fatal("no prompt of a third turn in the dump")
			}
			writeFile(t, dir, "changed.jsonl", changed)
			if code, out, _ := inProcess(t, dir, "replay", "changed.jsonl", "--no-model"); code == 0 || !strings.Contains(out, "turn 3") {
				t.Errorf("a changed prompt was not found: exit code %d\n%s", code, out)
			}
		})
	}
}

// worded is a format with words of its own: the rule that it states, and what
// it shows.
type worded struct {
	agent.Format
	rule, shown string
}

func (w worded) Prompt() string                      { return w.rule }
func (w worded) Begin(data.Task, int) agent.Prompter { return shows(w.shown) }

// shows is a prompter that always writes the same.
type shows string

func (p shows) Prompt(context.Context, agent.PromptState) (string, error) { return string(p), nil }

// A character of what a format says changes the contract, in the part that
// stands for it.
func TestContractOfWords(t *testing.T) {
	ts := newTestState(t)
	react, err := agent.Formats.Lookup("react")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	of := func(rule, shown string) eval.Contract {
		t.Helper()
		setup := agent.Setup{Format: worded{react, rule, shown}, Spec: spec}
		parts := map[string]string{"instruction": instructionPart([]data.Task{{Env: "maze", ID: "maze_1"}}, setup)}
		if err := ts.addFormat(t.Context(), parts, setup, playOptions{Config: configs.Config{Env: []configs.Env{{}}}}); err != nil {
			t.Fatal(err)
		}
		return eval.NewContract(parts)
	}
	base := of("Say so.", "Here.")
	if again := of("Say so.", "Here."); again.Hash != base.Hash {
		t.Errorf("the same words differ: %v", eval.Diff(base, again))
	}
	for part, other := range map[string]eval.Contract{"instruction": of("Say so!", "Here."), "prompts": of("Say so.", "Here!")} {
		if d := eval.Diff(base, other); len(d) != 1 || d[0].Part != part || other.Hash == base.Hash {
			t.Errorf("another character of the %s: differs in %v", part, d)
		}
	}
}
