package algo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
)

// player plays and scores the episodes of a step. PolicyGradient and Evol embed it.
type player struct {
	*core
	order  *data.Mixture
	course *course // nil: tasks are played in their order

	// The functions that the options name:
	estimator advantage.Estimator
	signal    reward.Signal
	allocate  reward.Allocation
}

func newPlayer(c *core) (player, error) {
	p := player{core: c}
	if err := errors.Join(agent.AtLeast("total steps", c.o.Steps, 1), c.o.Play.validate(c.Envs), p.lookUp()); err != nil {
		return p, err
	}
	var err error
	p.order, err = newOrder(c.Envs, c.o.Play)
	p.course = newCourse(c.Envs, c.o.Course.Sampler)
	return p, err
}

// lookUp sets the estimator, the signal and the allocation that the options name.
func (p *player) lookUp() error {
	var errs [3]error
	p.estimator, errs[0] = advantage.Estimators.Lookup(p.o.Estimator)
	p.signal, errs[1] = reward.Signals.Lookup(p.o.Signal)
	p.allocate, errs[2] = reward.Allocations.Lookup(p.o.Allocation)
	return errors.Join(errs[:]...)
}

// Steps returns the number of training steps.
func (p *player) Steps() int { return p.o.Steps }

// Restore continues the order of tasks and the curriculum from the state.
func (p *player) Restore(string) error {
	if p.state.Supervised {
		return errors.New("it was saved by supervised training, and reinforcement learning cannot continue from it")
	}
	st, err := p.state.DrawState(len(p.Envs))
	if err == nil {
		err = p.order.Restore(st)
	}
	if err == nil {
		err = p.course.restore(p.state.Curriculum)
	}
	if err != nil {
		return fmt.Errorf("the tasks differ: %w", err)
	}
	return nil
}

// Begin does the warm start and the validations before the first step.
func (p *player) Begin(ctx, soft context.Context, t *Trainer) error {
	p.state.SetDrawState(p.order.State())
	return t.begin(ctx, soft)
}

// Finish records the order of tasks and the curriculum after the step.
func (p *player) Finish(step int, b Batch, seconds float64, m Metrics) error {
	if err := p.learnCourse(step, b.Episodes, m); err != nil {
		return err
	}
	drawn := p.order.State()
	if b.drawn != nil {
		drawn = *b.drawn // the order is ahead
	}
	p.state.SetDrawState(drawn)
	m[track.TimingStep] = seconds
	m[track.GlobalStep], m[track.Epoch] = float64(step), float64(epoch(&p.state, p.Envs))
	throughput(m, p.tokens)
	return nil
}

func (p *player) Check(int) error   { return nil }
func (p *player) Save(string) error { return nil }

// Collect plays and scores the episodes of a step, or takes them from the background with AsyncSteps.
func (p *player) Collect(ctx context.Context, step int, m Metrics) (Batch, error) {
	if p.o.AsyncSteps > 0 {
		return p.takeAhead(ctx, step, m)
	}
	return p.collect(ctx, step, m)
}

// collect plays and scores the episodes of a step. With FilterGroups (DAPO's
// dynamic sampling, arXiv:2503.14476, section 3.2) it draws batches of tasks until
// BatchTasks groups have episodes with different values of FilterMetric, and keeps the first
// BatchTasks of these groups. After MaxGenBatches batches it continues with fewer groups. It returns
// all episodes, which the metrics episode/*, reward/* and rollout/* describe, and the rows
// to learn from, which the metrics critic/* describe.
//
// The episodes depend on the weights, the position in the order of tasks and the
// step, so a repeated step plays the same episodes.
//
// Differs from verl in: too few groups cause a warning and do not end the run; the compared
// values of the episodes do not contain the KL in the reward, which is measured later.
func (p *player) collect(ctx context.Context, step int, m Metrics) (Batch, error) {
	var b Batch
	var all playedTasks
	var found scored
	before := p.engineStats()
	groups, filtered, batches := 0, 0, 0
	cost, flops := p.actorCost(), 0.0
	for {
		batches++
		var tasks []data.Task
		if p.o.Source == nil {
			tasks = p.choose(step, p.o.BatchTasks)
		}
		played, rows, err := p.generateBatch(ctx, step, tasks, all.tasks, &found, m)
		if err != nil {
			return b, err
		}
		all.add(played)
		flops += cost.Forward(rows)
		if !p.o.FilterGroups {
			b.Rows = rows
			break
		}
		different, seen, err := DropZeroSpread(rows, GroupMetrics[p.o.FilterMetric])
		if err != nil {
			return b, err
		}
		filtered += seen.ZeroSpread + seen.Single
		for _, members := range advantage.Groups(different) {
			if groups == p.o.BatchTasks {
				break
			}
			groups++
			for _, i := range members {
				b.Rows = append(b.Rows, different[i])
			}
		}
		if groups == p.o.BatchTasks {
			break
		}
		if batches == p.o.MaxGenBatches {
			p.Log.Warn(fmt.Sprintf("only %d of %d groups have episodes of different values after algo.max_gen_batches = %d batches; "+
				"the step learns from these. Groups whose episodes all succeed or all fail give no gradient", groups, p.o.BatchTasks, batches), "step", step)
			break
		}
	}
	if p.o.FilterGroups {
		m[track.GenBatches] = float64(batches)
		m[track.FilteredGroups] = float64(filtered)
	}
	found.addTo(m)
	engineMetrics(m, before, p.engineStats())
	p.utilization(m, "rollout", "gen", flops)
	p.episodeMetrics(m, all.episodes, all.stats)
	b.Episodes = all.episodes
	return b, nil
}

func (p *player) episodeMetrics(m Metrics, episodes []*data.Episode, total rollout.Stats) {
	maps.Copy(m, rollout.Metrics(episodes))
	mixtureMetrics(m, p.Envs, episodes)
	m[track.MixedStarts] = float64(total.MixedStarts)
	m[track.Retries], m[track.Replays], m[track.Dropped] = float64(total.Retries), float64(total.Replays), float64(total.Failed)
	m[track.BadTasks] = float64(len(total.BadTasks))
	if slices.ContainsFunc(p.Envs, func(e Env) bool { return e.Train.Setup.Options.FilterOverlong }) {
		m[track.OverlongTasks] = float64(len(overlongTasks(episodes)))
	}
	m[track.RolloutTurns] = float64(total.Turns)
	m[track.RolloutTokens] = float64(total.Tokens)
	m[track.SampledTokens] = float64(total.SampledTokens)
}

// generateBatch plays and scores tasks, and replaces the tasks that cannot be played. With a
// Source it takes a batch of episodes instead.
// The argument earlier lists the tasks that the step has already played.
func (p *player) generateBatch(ctx context.Context, step int, tasks, earlier []data.Task, found *scored, m Metrics) (played playedTasks, rows []data.Row, err error) {
	o := p.o.Train
	o.Step, o.Earlier = step, earlier
	o.OnProgress = p.playProgress
	gen := Phase{Name: "gen", Step: step, Steps: p.steps, Total: p.dealt(p.o.BatchTasks) * o.GroupSize}
	err = p.playPhase(gen, m, func() (err error) {
		if p.o.Source != nil {
			played, err = p.fromSource(ctx, o)
		} else {
			played, err = p.playDrawn(ctx, step, tasks, o)
		}
		return err
	})
	if err != nil {
		return played, nil, err
	}
	err = p.phase(step, "reward", 0, m, func() (err error) {
		rows, err = p.score(ctx, played.episodes, found)
		return err
	})
	if err == nil && p.estimator.Needs.Baseline {
		rows, err = p.baselines(ctx, step, played, o, rows, m)
	}
	return played, rows, err
}

// fromSource takes the episodes of a batch from the Source.
func (p *player) fromSource(ctx context.Context, o rollout.Options) (playedTasks, error) {
	episodes, stats, err := p.supplied(ctx, p.o.Source, p.o.BatchTasks, o)
	played := playedTasks{episodes: episodes, stats: stats}
	uid := ""
	for _, ep := range episodes { // one task for each group
		if ep.UID != uid {
			played.tasks, uid = append(played.tasks, ep.Task), ep.UID
		}
	}
	return played, err
}

// baselines plays one greedy episode of every task, from the same start as the task's
// other episodes, and makes its score the baseline of the task's rows. It leaves out and
// counts the rows of a task whose greedy episode was lost to the infrastructure.
func (p *player) baselines(ctx context.Context, step int, played playedTasks, o rollout.Options, rows []data.Row, m Metrics) ([]data.Row, error) {
	trainable := groupsWith(played.episodes, func(ep *data.Episode) bool { return ep.Outcome.Trainable() })
	o.Skip = func(uid string, _ int) bool { return !trainable[uid] }
	envs := p.trainEnvs(step)
	for name, e := range envs {
		e.Setup.Options.Greedy, e.Setup.Options.TopP, e.Setup.Options.TopK = true, 1, 0
		envs[name] = e
	}
	o.GroupSize, o.Starts = 1, rollout.StartsOf(played.episodes)
	var greedy []data.Row
	greedily := Phase{Name: "gen_max", Step: step, Steps: p.steps, Total: p.dealt(len(played.tasks))}
	err := p.playPhase(greedily, m, func() error {
		episodes, _, err := p.rollOut(ctx, ctx, envs, played.tasks, o)
		if err != nil {
			return err
		}
		greedy, err = p.score(ctx, episodes, &scored{})
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

// greedyScores returns, by uid, the sum of the token rewards of the only episode of each
// group, over all contexts of the episode.
func greedyScores(rows []data.Row) map[string]float64 {
	scores := map[string]float64{}
	for i := range rows {
		scores[rows[i].UID] += rows[i].RewardSum()
	}
	return scores
}

// engineMetrics reports the work that the engine did between two readings of its counts.
func engineMetrics(m Metrics, before, after engine.Stats) {
	steps := float64(after.Steps - before.Steps)
	m[track.EngineSteps] = steps
	m[track.EnginePrefill] = float64(after.PrefillTokens - before.PrefillTokens)
	m[track.EngineShared] = float64(after.SharedTokens - before.SharedTokens)
	m[track.EngineDecode] = float64(after.DecodeTokens - before.DecodeTokens)
	m[track.EngineParked] = float64(after.Parked - before.Parked)
	if steps > 0 {
		m[track.EngineRows] = float64(after.Rows-before.Rows) / steps
	}
}

// trainEnvs returns the training environments with the step's limit on turns.
func (p *player) trainEnvs(step int) map[string]rollout.Env {
	m := map[string]rollout.Env{}
	for _, e := range p.Envs {
		turns := &e.Train.Setup.Options.MaxTurns // a field of the copy e, so that p.Envs does not change
		*turns = p.o.Course.Stages.Turns(step, *turns)
		m[e.Name] = e.Train
	}
	return m
}
