package algo

// AgentEvol, the algorithm of AgentGym: the agent explores and imitates its
// successes. With D initially the recorded trajectories, a step is
//
//	D_m = { τ ~ π_m : r(τ) > the threshold of τ's environment }
//	D ← D ∪ D_m
//	π_{m+1} from π_m by supervised training on D (learner.Actor.Imitate)
//
// Source: Xi et al., AgentGym, arXiv:2406.04151, and the filter of its examples,
// which keeps one episode of a task in each iteration.
//
// Differs from AgentGym in: training continues from the current weights (AgentGym's
// examples start every iteration from the base model); a step explores
// data.train_batch_size tasks instead of all; it imitates the sampled tokens instead of
// tokenising their text again; since D grows, a step may learn from a sample of D
// (Replay).

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
)

// Evol selects AgentEvol as the method of the steps. It uses the passes, the mini-batches and the optimiser of
// Update.
type Evol struct {
	PerTask int // a step keeps the first PerTask successes of each task; 0: all
	// Replay is the number of recorded trajectories and kept episodes of earlier steps
	// that a step also learns from. -1: all.
	Replay   int
	Original []data.Row // the recorded trajectories
}

// keptFile is the dump of kept episodes in a checkpoint folder.
const keptFile = "kept.jsonl.zst"

// evolution is the method of Evol.
type evolution struct {
	player
	Evol
	kept      []*data.Episode // successes of the finished steps
	successes []*data.Episode // successes of the current step
}

func (o Evol) open(c *core) (Method, error) {
	switch {
	case o.PerTask < 0 || o.Replay < -1:
		return nil, fmt.Errorf("AgentEvol: per_task = %d and replay = %d, want at least 0 and -1", o.PerTask, o.Replay)
	case c.o.Critic != nil || c.o.KLReward != nil || c.o.needsReference() || c.o.Policy.EntropyCoef != 0 || c.o.PFPPO != "" || c.o.FilterGroups || c.o.Correction.on():
		return nil, errors.New("AgentEvol learns by supervised training: it does not support a critic, a KL, an entropy bonus, pf_ppo, filter_groups or rollout correction")
	}
	p, err := newPlayer(c)
	return &evolution{player: p, Evol: o}, err
}

// Restore reads the kept episodes of a checkpoint.
func (e *evolution) Restore(dir string) error {
	if e.state.KeptRows > 0 {
		return errors.New("it has AgentEvol's kept episodes in the format of an earlier version: " +
			"start a new run from its weights, with model.path set to its actor folder")
	}
	if err := e.player.Restore(dir); err != nil || e.state.Kept == 0 {
		return err
	}
	kept, err := dump.ReadFile(filepath.Join(dir, keptFile))
	if err != nil {
		return fmt.Errorf("the kept episodes: %w", err)
	}
	if e.kept = kept; len(kept) != e.state.Kept {
		return fmt.Errorf("%s has %d episodes, want %d", keptFile, len(kept), e.state.Kept)
	}
	return nil
}

// Save writes the kept episodes to a checkpoint folder.
func (e *evolution) Save(dir string) error {
	if len(e.kept) == 0 {
		return nil
	}
	return dump.WriteFile(filepath.Join(dir, keptFile), dump.Header{}, e.kept)
}

// keep returns the episodes to imitate, in their order. An episode is a success if
// its reward is above the threshold of the environment.
func (o *Evol) keep(episodes []*data.Episode) []*data.Episode {
	var successes []*data.Episode
	perTask := map[taskKey]int{}
	for _, ep := range episodes {
		key := keyOf(ep.Task)
		if ep.Outcome != data.Success || ep.SampledTokens() == 0 || o.PerTask > 0 && perTask[key] == o.PerTask {
			continue
		}
		perTask[key]++
		successes = append(successes, ep)
	}
	return successes
}

// replay returns the earlier trajectories that a step also learns from.
func (o *Evol) replay(earlier []data.Row, seed uint64) ([]data.Row, error) {
	all := slices.Concat(o.Original, earlier)
	if o.Replay < 0 {
		return all, nil
	}
	spans, err := data.EpisodeSpans(all)
	if err != nil || len(spans) == 0 {
		return nil, err
	}
	order, err := data.NewOrder(len(spans), true, seed)
	if err != nil {
		return nil, err
	}
	var drawn []data.Row
	for _, i := range order.Next(min(o.Replay, len(spans))) {
		drawn = append(drawn, all[spans[i][0]:spans[i][1]]...)
	}
	return drawn, nil
}

// Learn imitates the step's successes and a sample of the trajectories so far.
func (e *evolution) Learn(ctx context.Context, step int, b Batch, m Metrics) error {
	e.successes = e.keep(b.Episodes)
	keptMetrics(m, e.Envs, b.Episodes, e.successes)
	own, err := data.Rows(e.successes)
	if err != nil {
		return err
	}
	earlier, err := data.Rows(e.kept)
	if err != nil {
		return err
	}
	o := e.o.Policy
	o.Seed = rollout.EpisodeSeed(e.o.Seed, step, "", "agentevol", 0, 0)
	drawn, err := e.replay(earlier, o.Seed)
	if err != nil {
		return err
	}
	rows := slices.Concat(own, drawn)
	lr := e.o.Schedule.LR(step - 1)
	m[track.ActorLR] = lr
	m[track.EvolTrajectories] = float64(episodesIn(rows))
	if len(rows) == 0 {
		e.Log.Warn("no episode succeeded and no earlier trajectory is available: the weights do not change", "step", step)
		return nil
	}
	var st learner.ImitationStats
	err = e.passes(ctx, step, "update_actor", rows, o.Passes.Count(), m, func(ctx context.Context) error {
		return e.withUpdate(ctx, func() (err error) {
			st, err = e.Actor.Imitate(ctx, rows, lr, o)
			return err
		})
	})
	if err != nil {
		return err
	}
	e.newWeights()
	e.utilization(m, "actor", "update_actor", e.actorCost().Update(rows, o.Passes))
	m[track.ActorSkipped] = float64(st.Skipped)
	if st.Steps > 0 {
		m[track.EvolLoss], m[track.ActorGradNorm] = st.Loss, st.GradNorm
	}
	if st.Skipped > 0 {
		e.warnOfSkipped(step, st.Skipped, st.Steps)
	}
	return nil
}

// Finish adds the step's successes to the trajectories of later steps.
func (e *evolution) Finish(step int, b Batch, seconds float64, m Metrics) error {
	for _, ep := range e.successes {
		e.kept = append(e.kept, &data.Episode{
			Task: data.Task{ID: ep.Task.ID, Env: ep.Task.Env, Index: ep.Task.Index}, UID: ep.UID, Sample: ep.Sample, Seed: ep.Seed,
			Tokens: ep.Tokens, Mask: ep.Mask, LogProbs: ep.LogProbs, Contexts: ep.Contexts, Reward: ep.Reward,
			Outcome: ep.Outcome, WeightVersion: ep.WeightVersion,
		})
	}
	e.state.Kept = len(e.kept)
	m[track.EvolStored] = float64(len(e.kept))
	return e.player.Finish(step, b, seconds, m)
}

// keptMetrics reports the number of kept episodes, by environment and overall, and
// their share of the episodes that were not lost to the infrastructure.
func keptMetrics(m Metrics, envs []Env, episodes, kept []*data.Episode) {
	count := func(list []*data.Episode, env string) (n float64) {
		for _, ep := range list {
			if ep.Outcome.Trainable() && (env == Overall || ep.Task.Table() == env) {
				n++
			}
		}
		return n
	}
	names := []string{Overall}
	for _, e := range envs {
		if e.Weight > 0 {
			names = append(names, e.Name)
		}
	}
	for _, name := range names {
		n := count(kept, name)
		m[track.Evol+name+"/kept"] = n
		if played := count(episodes, name); played > 0 {
			m[track.Evol+name+"/kept_share"] = n / played
		}
	}
}
