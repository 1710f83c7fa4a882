package algo

// AgentEvol, AgentGym's own algorithm: the agent explores, and imitates itself
// where it won. With D the recorded trajectories at first, a step is
//
//	D_m = { τ ~ π_m : r(τ) > the threshold of τ's environment }
//	D ← D ∪ D_m
//	π_{m+1} from π_m by supervised training on D (sft.go)
//
// Source: Xi et al., AgentGym, arXiv:2406.04151, and the filter of its examples,
// which keeps one episode of a task in each iteration.
//
// Differs from AgentGym in: training goes on from the weights as they are, where
// its examples begin every iteration at the base model; a step explores as many
// tasks as data.train_batch_size says instead of all; what is imitated are the
// very tokens that were sampled, not their text tokenised again; of D a share
// may be drawn anew for every step (Replay), since D grows.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
)

// Evol says how AgentEvol learns.
type Evol struct {
	PerTask int // episodes of a task that a step keeps at most, the first ones; 0: all
	// Replay is how many trajectories, of the recorded ones and of those that
	// earlier steps kept, are learned from beside the step's own; -1: all.
	Replay   int
	Original []data.Row // the recorded trajectories
}

// KeptFolder is where a checkpoint has the episodes that AgentEvol kept.
const KeptFolder = "kept"

// keep are the episodes to imitate, in their order. Success is a reward over the
// threshold of the environment.
func (o *Evol) keep(episodes []*data.Episode) []*data.Episode {
	var won []*data.Episode
	of := map[taskKey]int{}
	for _, ep := range episodes {
		key := keyOf(ep.Task)
		if ep.Outcome != data.Success || ep.SampledTokens() == 0 || o.PerTask > 0 && of[key] == o.PerTask {
			continue
		}
		of[key]++
		won = append(won, ep)
	}
	return won
}

// draw are the trajectories that a step learns from beside its own.
func (o *Evol) draw(earlier []data.Row, seed uint64) ([]data.Row, error) {
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

// evolve is the learning of a step of AgentEvol. It returns the rows of the
// episodes it kept.
func (t *Trainer) evolve(ctx context.Context, step int, episodes []*data.Episode, m Metrics) (kept []data.Row, err error) {
	won := t.o.Evol.keep(episodes)
	keptMetrics(m, t.envs, episodes, won)
	batch, err := data.BatchFromEpisodes(won)
	if err != nil {
		return nil, err
	}
	kept = make([]data.Row, len(batch.Rows))
	for i := range batch.Rows {
		kept[i] = lesson(&batch.Rows[i])
	}
	o := t.o.Policy
	o.Seed = rollout.EpisodeSeed(t.o.Seed, step, "", "agentevol", 0, 0)
	drawn, err := t.o.Evol.draw(t.kept, o.Seed)
	if err != nil {
		return nil, err
	}
	rows := slices.Concat(kept, drawn)
	lr := t.o.Schedule.LR(step - 1)
	m[track.ActorLR] = lr
	m[track.EvolTrajectories] = float64(episodesIn(rows))
	if len(rows) == 0 {
		t.log.Warn("no episode was won, and there is no trajectory from before: nothing to learn from in this step", "step", step)
		return nil, nil
	}
	t.hand("update_actor", rows, o.Passes.Count())
	var st learner.ImitationStats
	err = t.engine.Exclusive(ctx, func() error {
		return t.passes(ctx, step, "update_actor", rows, o.Passes.Count(), m, func(ctx context.Context) (err error) {
			back, err := t.fetchForUpdate(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, back()) }()
			st, err = t.actor.Imitate(ctx, rows, lr, o)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	t.newWeights()
	t.actorUtilization(m, rows, o.Passes)
	m[track.ActorSkipped] = float64(st.Skipped)
	if st.Steps > 0 {
		m[track.EvolLoss], m[track.ActorGradNorm] = st.Loss, st.GradNorm
	}
	if st.Skipped > 0 {
		t.warnOfSkipped(step, st.Skipped, st.Steps)
	}
	return kept, nil
}

// lesson is what is kept of a row: what supervised training reads, and whose
// it was.
func lesson(r *data.Row) data.Row {
	return data.Row{
		UID: r.UID, TaskID: r.TaskID, Env: r.Env, Index: r.Index, Sample: r.Sample, Seed: r.Seed, WeightVersion: r.WeightVersion,
		Context: r.Context, Contexts: r.Contexts, Tokens: r.Tokens, Mask: r.Mask, Score: r.Score, Outcome: r.Outcome,
	}
}

// keptMetrics say how many episodes were kept, by environment and of all. The
// share is of those that count: not of what was lost to the infrastructure.
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

// store adds the rows of a finished step to what later steps learn from.
func (t *Trainer) store(kept []data.Row, m Metrics) {
	t.kept = append(t.kept, kept...)
	t.state.Kept = len(t.kept)
	m[track.EvolStored] = float64(episodesIn(t.kept))
}

// saveKept writes the kept episodes to a checkpoint; nothing where there are
// none.
func (t *Trainer) saveKept(dir string) error {
	if len(t.kept) == 0 {
		return nil
	}
	return data.Batch{Rows: t.kept}.Save(filepath.Join(dir, KeptFolder))
}

// LoadKept reads the episodes that a checkpoint has kept.
func LoadKept(dir string, st rundir.State) ([]data.Row, error) {
	if st.Kept == 0 {
		return nil, nil
	}
	b, err := data.LoadBatch(filepath.Join(dir, KeptFolder))
	if err != nil {
		return nil, fmt.Errorf("the kept episodes of the checkpoint: %w", err)
	}
	return b.Rows, nil
}

// checkEvol refuses what AgentEvol would pass over.
func (o *Options) checkEvol() error {
	if o.Evol == nil {
		return nil
	}
	switch {
	case o.Evol.PerTask < 0 || o.Evol.Replay < -1:
		return fmt.Errorf("AgentEvol keeps %d episodes of a task and replays %d, want at least 0 and -1", o.Evol.PerTask, o.Evol.Replay)
	case o.Critic != nil || o.KLReward != nil || o.Policy.KLCoef != 0 || o.Policy.EntropyCoef != 0 || o.PFPPO != "" || o.FilterGroups || o.Correction.on():
		return errors.New("AgentEvol learns by supervised training: it has no critic, no KL, no entropy bonus, and takes all episodes as they come")
	case o.Recorded != nil:
		return errors.New("AgentEvol plays its episodes; those of a dump are imitated by supervised training")
	}
	return nil
}
