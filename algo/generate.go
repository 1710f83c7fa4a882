package algo

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// generate plays and scores the episodes of a step. With FilterGroups (DAPO's
// dynamic sampling, arXiv:2503.14476, section 3.2) it goes on, a batch of tasks
// at a time, until as many groups as a step has tasks have episodes of different
// values, and keeps those alone, the first that came; after MaxGenBatches
// batches it goes on with what there is. All episodes are returned, and all are
// measured: episode/*, reward/* and rollout/* are about everything that the step
// played. The rows are those to learn from, and critic/* is about them.
//
// What is played depends on the weights, the order's state and the step, so a
// step that is done again plays the same.
//
// Differs from verl in: too few groups are a warning rather than the end of the
// run, and the KL in the reward, which is measured after this, is not part of
// the value.
func (t *Trainer) generate(ctx context.Context, step int, m Metrics) ([]*data.Episode, []data.Row, error) {
	if t.o.Recorded != nil {
		return t.recorded(ctx, step, m)
	}
	var all []*data.Episode
	var kept []data.Row
	var played []data.Task
	var total rollout.Stats
	var found scored
	before := t.engine.Stats()
	groups, filtered, batches := 0, 0, 0
	cost, flops := t.actorCost(), 0.0
	for {
		batches++
		tasks := t.choose(step, t.o.BatchTasks)
		drawn, episodes, rows, stats, err := t.generateBatch(ctx, step, tasks, played, &found, m)
		if err != nil {
			return nil, nil, err
		}
		played = append(played, drawn...)
		all = append(all, episodes...)
		flops += cost.Forward(rows)
		total.Add(stats)
		if !t.o.FilterGroups {
			kept = rows
			break
		}
		different, seen, err := DropZeroSpread(rows, GroupMetrics[t.o.FilterMetric])
		if err != nil {
			return nil, nil, err
		}
		filtered += seen.ZeroSpread + seen.Single
		for _, members := range advantage.Groups(different) {
			if groups == t.o.BatchTasks {
				break
			}
			groups++
			for _, i := range members {
				kept = append(kept, different[i])
			}
		}
		if groups == t.o.BatchTasks {
			break
		}
		if batches == t.o.MaxGenBatches {
			t.log.Warn(fmt.Sprintf("only %d of %d groups have episodes of different values after algo.max_gen_batches = %d batches: "+
				"the step learns from those; tasks that are always or never solved teach nothing", groups, t.o.BatchTasks, batches), "step", step)
			break
		}
	}
	if t.o.FilterGroups {
		m[track.GenBatches] = float64(batches)
		m[track.FilteredGroups] = float64(filtered)
	}
	found.metrics(m)
	engineMetrics(m, before, t.engine.Stats())
	t.utilization(m, "rollout", "gen", flops)
	for name, x := range rollout.Metrics(all) {
		m[name] = x
	}
	mixtureMetrics(m, t.envs, all)
	m["group/mixed_starts"] = float64(total.MixedStarts)
	m["rollout/retries"] = float64(total.Retries)
	m["rollout/replays"] = float64(total.Replays)
	m["rollout/dropped"] = float64(total.Failed)
	m["rollout/bad_tasks"] = float64(len(total.BadTasks))
	if t.filtersOverlong() {
		m[track.OverlongTasks] = float64(len(overlongTasks(all)))
	}
	m["rollout/turns"] = float64(total.Turns)
	m["rollout/tokens"] = float64(total.Tokens)
	m["rollout/sampled_tokens"] = float64(total.SampledTokens)
	return all, kept, nil
}

// generateBatch plays and scores the tasks, and others in place of those that
// cannot be played. It returns all that it drew.
func (t *Trainer) generateBatch(ctx context.Context, step int, tasks, earlier []data.Task, found *scored, m Metrics) (drawn []data.Task, episodes []*data.Episode, rows []data.Row, stats rollout.Stats, err error) {
	o := t.o.Train
	o.Step, o.Earlier = step, earlier
	o.OnProgress = t.onProgress
	err = t.phase(step, "gen", len(tasks)*o.GroupSize, m, func() (err error) {
		drawn, episodes, stats, err = t.playDrawn(ctx, step, tasks, o)
		return err
	})
	if err != nil {
		return nil, nil, nil, stats, err
	}
	err = t.phase(step, "reward", 0, m, func() (err error) {
		rows, err = t.score(ctx, episodes, found)
		return err
	})
	if err != nil {
		return nil, nil, nil, stats, err
	}
	if e, err := advantage.Estimators.Lookup(t.o.Estimator); err != nil || !e.Needs.Baseline {
		return drawn, episodes, rows, stats, err
	}
	played := groupsWith(episodes, func(ep *data.Episode) bool { return ep.Outcome.Trainable() })
	o.Skip = func(uid string, _ int) bool { return !played[uid] }
	rows, err = t.baselines(ctx, step, drawn, episodes, o, rows, m)
	return drawn, episodes, rows, stats, err
}

// baselines plays one greedy episode of every task and makes its score the
// baseline of the task's rows. Rows whose greedy episode was lost to the
// infrastructure are left out and counted. The greedy episode begins as the
// played ones of its task did.
func (t *Trainer) baselines(ctx context.Context, step int, tasks []data.Task, played []*data.Episode, o rollout.Options, rows []data.Row, m Metrics) ([]data.Row, error) {
	envs := t.trainEnvs(step)
	for name, e := range envs {
		e.Setup.Options.Greedy, e.Setup.Options.TopP, e.Setup.Options.TopK = true, 1, 0
		envs[name] = e
	}
	o.GroupSize, o.Starts = 1, rollout.StartsOf(played)
	var greedy []data.Row
	err := t.phase(step, "gen_max", len(tasks), m, func() error {
		episodes, _, err := rollout.RunEpisodes(ctx, envs, tasks, o)
		if err != nil {
			return err
		}
		greedy, err = t.score(ctx, episodes, &scored{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("greedy episodes: %w", err)
	}
	scores := greedyScores(greedy)
	var kept []data.Row
	for _, r := range rows {
		baseline, known := scores[r.UID]
		if !known {
			continue
		}
		r.Baseline = &baseline
		kept = append(kept, r)
	}
	m[track.WithoutBaseline] += float64(episodesIn(rows) - episodesIn(kept))
	return kept, nil
}

// greedyScores are what the one episode of each task was paid, by the task's
// uid. Its reward may lie on several contexts.
func greedyScores(rows []data.Row) map[string]float64 {
	scores := map[string]float64{}
	for i := range rows {
		scores[rows[i].UID] += rows[i].RewardSum()
	}
	return scores
}

// engineMetrics says how well the engine was used between two counts.
func engineMetrics(m Metrics, before, after engine.Stats) {
	steps := float64(after.Steps - before.Steps)
	m["engine/steps"] = steps
	m["engine/prefill_tokens"] = float64(after.PrefillTokens - before.PrefillTokens)
	m["engine/shared_tokens"] = float64(after.SharedTokens - before.SharedTokens)
	m["engine/decode_tokens"] = float64(after.DecodeTokens - before.DecodeTokens)
	m["engine/parked"] = float64(after.Parked - before.Parked)
	if steps > 0 {
		m["engine/rows_per_step"] = float64(after.Rows-before.Rows) / steps
	}
}

func (t *Trainer) onProgress(p rollout.Progress) {
	t.events.Progress(p.Done, fmt.Sprintf("%d solved", p.Success))
}
