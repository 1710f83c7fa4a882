package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/openai/openaitest"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// TestContextsAreTrainedAsSampled checks that in formats with one context per turn,
// training computes the same log-prob for every token as sampling did, although
// each context is a separate row.
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
			maze := tr.trainerEnvs()[0]
			episodes, _, err := rollout.RunEpisodes(t.Context(), map[string]rollout.Env{"maze": maze.Train}, maze.TrainTasks,
				rollout.Options{GroupSize: 3, Concurrency: 6, Seed: 5, Deterministic: true})
			if err != nil {
				t.Fatal(err)
			}
			rows, err := data.Rows(episodes)
			if err != nil {
				t.Fatal(err)
			}
			turns := 0
			for _, ep := range episodes {
				turns += len(ep.Turns)
			}
			if len(rows) != turns || turns <= len(episodes) {
				t.Errorf("got %d rows for %d turns in %d episodes, want a row per turn and several turns per episode", len(rows), turns, len(episodes))
			}
			err = data.ByEpisode(rows, func(episodes []data.Row) error {
				for i := range episodes { // set rewards that differ within a group
					r := &episodes[i]
					r.Rewards = make([]float32, len(r.Tokens))
					r.Rewards[r.Turns[len(r.Turns)-1].End-1] = float32(r.Sample)
				}
				return nil
			})
			if err == nil {
				err = advantage.Compute("grpo", rows, advantage.Options{Params: registry.Values{"norm_by_std": true}})
			}
			if err != nil {
				t.Fatal(err)
			}
			err = learner.LogProbs(t.Context(), tr.actor.Compute(), rows, learner.MicroBatching{Rows: 2}, 1, learner.OldLogProbs)
			if err != nil {
				t.Fatal(err)
			}
			st, err := tr.actor.UpdateActor(t.Context(), rows, 1e-4, learner.PolicyOptions{
				MiniBatch: 2, Micro: learner.MicroBatching{Rows: 2}, Loss: "vanilla", LossOptions: loss.Options{Params: registry.Values{"clip_ratio_low": .2, "clip_ratio_high": .2, "clip_ratio_c": 3.0}},
				Agg: loss.TokenMean, Temperature: 1, GradClip: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			if st.Steps != 3 || !(st.GradNorm > 0) { // mini-batches count the six episodes, not their contexts
				t.Errorf("got %d optimiser steps with gradient norm %g, want 3 steps with a gradient", st.Steps, st.GradNorm)
			}
			if !(st.Gap.Max < 1e-3) {
				t.Errorf("log-probs of sampling and training differ by up to %g", st.Gap.Max)
			}
		})
	}
}

// TestExpertsInContexts checks that expert solutions for a warm start are recorded in
// the run's format.
func TestExpertsInContexts(t *testing.T) {
	tr, err := opened(t, nil, tinyRun, "env.maze.format=history", "env.maze.expert_tasks=17", "model.fresh.vocabulary=bytes")
	if err != nil {
		t.Fatal(err)
	}
	_, anew := tr.envs[0].setup.Format.(agent.Prompting)
	if !anew || len(tr.experts) < 2 {
		t.Fatalf("%d conversations, format %s", len(tr.experts), tr.envs[0].setup.Format.Name())
	}
	for i, task := range tr.experts {
		c := task.Conversation
		if len(c) != 2 || task.ID != "maze_17" || !strings.HasPrefix(c[1].Content, "<action>move ") || strings.Contains(c[0].Content, "step "+string(rune('1'+i))) != (i > 0) {
			t.Errorf("conversation %d of %s: %+v", i, task.ID, c)
		}
	}
}

// TestSummariesOfAnEndpoint checks that summaries come from the configured endpoint
// and appear in the model's prompts. An endpoint that refuses requests is reported
// before any episode.
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
	maze := tr.trainerEnvs()[0]
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
				t.Errorf("turn %d of %s: the prompt has a summary: %v\n%s", i+1, ep.Task.ID, has, text)
			}
			shown++
		}
	}
	requests := server.Requests() // the first request checks the endpoint
	if len(requests) != 1+shown-2*len(episodes) || len(requests) < 2 {
		t.Errorf("got %d requests for %d turns of %d episodes, want a check and a summary for all but two turns per episode", len(requests), shown, len(episodes))
	}
	if r := requests[len(requests)-1]; r.Model != "writer" || r.Raw["max_tokens"] != 77.0 || r.Raw["temperature"] != 0.1 || !strings.Contains(r.Last(), "KeyEvents") {
		t.Errorf("the endpoint received %+v", r)
	}

	gone := openaitest.Serve(t, func(int, openaitest.Request) openaitest.Answer { return openaitest.Answer{Status: 401, Body: "{}"} })
	if _, err := opened(t, nil, tinyRun, append(sets, "agent.summary.base_url="+gone.URL)...); err == nil || !strings.Contains(err.Error(), "agent.summary") {
		t.Errorf("for an endpoint that refuses the key: got error %v, want an error of agent.summary", err)
	}
}
