package algo

// Groups of episodes are dealt to the N ranks that play: the r-th of them plays the groups r, r+N, r+2N, …. All ranks draw the same tasks,
// and receive all episodes in the order of a run of one process. Every rank then does the same computations on them.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
)

// stop returns ErrInterrupted if soft has ended on a rank.
func stop(ctx, soft context.Context, r *ranks.Ranks) error {
	return interrupted(r.Each(ctx, func() error {
		if soft.Err() != nil {
			return ErrInterrupted
		}
		return nil
	}))
}

// interrupted returns ErrInterrupted for the interrupt of another rank, and other errors unchanged.
func interrupted(err error) error {
	if ranks.Interrupted(err) {
		return ErrInterrupted
	}
	return err
}

// dealt returns the number of groups, of n, that this rank plays.
func (c *core) dealt(n int) int {
	index, of, plays := c.engineIndex()
	if !plays {
		return 0
	}
	return (n - index + of - 1) / of
}

// engineIndex returns the index of this rank's engine among the engines that play, and their number. The index is -1 on a trainer if
// there are workers. plays is false on a rank that plays no episodes: of the ranks that hold a model together, only the first plays.
func (c *core) engineIndex() (index, of int, plays bool) {
	size := c.Together.Size
	if size <= 1 {
		index, of = c.Ranks.Player()
		return index, of, index >= 0
	}
	return c.Ranks.Rank() / size, c.Ranks.Size() / size, c.Ranks.Rank()%size == 0
}

// generate calls play, which plays with the engine, on the ranks that have one.
func (c *core) generate(ctx context.Context, play func() error) error {
	if err := c.reserveKV(ctx); err != nil {
		if c.Together.Size > 1 { // the other ranks wait for this one in their steps
			c.Ranks.Break()
		}
		return err
	}
	if c.Together.Size > 1 {
		return c.Together.Play(ctx, play)
	}
	return play()
}

// playedDeal holds the episodes that one rank has played.
type playedDeal struct {
	Episodes []sentEpisode
	Stats    rollout.Stats
	Engine   engine.Stats // the work of the engine
}

// sentEpisode is an episode in a message. The arrays of tokens are outside the JSON, in which they would be several times as large.
type sentEpisode struct {
	Group    int // index of the task; -1: Task is set
	Task     []byte
	Episode  []byte
	Tokens   []int32
	Mask     []uint8
	LogProbs []float32
}

func send(ep *data.Episode, group int) (sentEpisode, error) {
	short := *ep
	short.Tokens, short.LogProbs = nil, nil
	text, err := json.Marshal(&short)
	return sentEpisode{Group: group, Episode: text, Tokens: ep.Tokens, Mask: ep.Mask, LogProbs: ep.LogProbs}, err
}

func (s *sentEpisode) receive(tasks []data.Task) (*data.Episode, error) {
	ep := &data.Episode{}
	if err := json.Unmarshal(s.Episode, ep); err != nil {
		return nil, fmt.Errorf("decode an episode of another rank: %w", err)
	}
	ep.Tokens, ep.Mask, ep.LogProbs = s.Tokens, s.Mask, s.LogProbs
	if s.Group >= 0 {
		ep.Task = tasks[s.Group]
		return ep, nil
	}
	return ep, json.Unmarshal(s.Task, &ep.Task)
}

// wholeWeights gathers sharded weights on every rank, so that each rank can generate with the whole model, until release is called.
func (c *core) wholeWeights(ctx context.Context) (release func() error, err error) {
	if !c.Actor.Compute().Lockstep() || c.Together.Size > 1 { // Together.Play gathers them weight by weight
		return func() error { return nil }, nil
	}
	return func() error { return c.Actor.ReleaseWeights(ctx) }, c.Actor.GatherWeights(ctx)
}

// rollOut plays the episodes of all ranks with rollout.RunEpisodes and returns them on every rank. The context play cancels only the
// playing, not the exchange.
func (c *core) rollOut(ctx, play context.Context, envs map[string]rollout.Env, tasks []data.Task, o rollout.Options) ([]*data.Episode, rollout.Stats, error) {
	if c.Ranks == nil {
		if err := c.reserveKV(ctx); err != nil {
			return nil, rollout.Stats{}, err
		}
		return rollout.RunEpisodes(play, envs, tasks, o)
	}
	o.Deal.Index, o.Deal.Of, _ = c.engineIndex()
	group := map[string]int{}
	for i, uid := range rollout.GroupIDs(tasks, o) {
		group[uid] = i
	}
	release := func() error { return nil }
	var err error
	if o.Deal.Index >= 0 {
		if release, err = c.wholeWeights(ctx); err != nil {
			return nil, rollout.Stats{}, err
		}
	}
	var own []*data.Episode
	parts, err := ranks.Gather(ctx, c.Ranks, func() (p playedDeal, err error) {
		if o.Deal.Index < 0 { // the workers play
			return p, nil
		}
		before := c.Engine.Stats()
		err = c.generate(ctx, func() (err error) {
			own, p.Stats, err = rollout.RunEpisodes(play, envs, tasks, o)
			return err
		})
		if err != nil {
			return p, err
		}
		p.Engine = workSince(before, c.Engine.Stats())
		for _, ep := range own {
			s, err := send(ep, group[ep.UID])
			if err != nil {
				return p, err
			}
			p.Episodes = append(p.Episodes, s)
		}
		return p, nil
	})
	err = errors.Join(interrupted(err), release())
	var total rollout.Stats
	if err != nil {
		return nil, total, err
	}
	var all []*data.Episode
	waves := 0
	for rank, p := range parts {
		elapsed := max(total.Elapsed, p.Stats.Elapsed)
		total.Add(p.Stats)
		total.Elapsed = elapsed
		episodes := own
		if rank != c.Ranks.Rank() {
			if episodes, err = receiveAll(p.Episodes, tasks); err != nil {
				return nil, total, err
			}
			c.elsewhere = addWork(c.elsewhere, p.Engine)
		}
		last := waves
		for _, ep := range episodes { // the waves of a rank follow those of the ranks before
			if ep.Wave > 0 {
				ep.Wave += waves
				last = max(last, ep.Wave)
			}
		}
		waves = last
		all = append(all, episodes...)
	}
	slices.Sort(total.BadTasks)
	total.BadTasks = slices.Compact(total.BadTasks)
	slices.SortStableFunc(all, func(a, b *data.Episode) int {
		return cmp.Or(cmp.Compare(group[a.UID], group[b.UID]), cmp.Compare(a.Sample, b.Sample))
	})
	for _, ep := range slices.Backward(all) {
		if !ep.Outcome.Trainable() && ep.Outcome != data.OverlongPrompt {
			return all, total, rollout.CheckFailed(o, total, ep)
		}
	}
	return all, total, nil
}

func receiveAll(sent []sentEpisode, tasks []data.Task) ([]*data.Episode, error) {
	var episodes []*data.Episode
	for _, s := range sent {
		ep, err := s.receive(tasks)
		if err != nil {
			return nil, err
		}
		episodes = append(episodes, ep)
	}
	return episodes, nil
}

// engineStats returns the work of the engines of all ranks.
func (c *core) engineStats() engine.Stats { return addWork(c.Engine.Stats(), c.elsewhere) }

// workSince returns the increase of the counters between two readings.
func workSince(before, after engine.Stats) engine.Stats {
	return engine.Stats{
		Steps: after.Steps - before.Steps, Rows: after.Rows - before.Rows, PrefillTokens: after.PrefillTokens - before.PrefillTokens,
		SharedTokens: after.SharedTokens - before.SharedTokens, DecodeTokens: after.DecodeTokens - before.DecodeTokens,
		SampledTokens: after.SampledTokens - before.SampledTokens, Parked: after.Parked - before.Parked,
	}
}

func addWork(a, b engine.Stats) engine.Stats {
	a.Steps, a.Rows, a.PrefillTokens = a.Steps+b.Steps, a.Rows+b.Rows, a.PrefillTokens+b.PrefillTokens
	a.SharedTokens, a.DecodeTokens = a.SharedTokens+b.SharedTokens, a.DecodeTokens+b.DecodeTokens
	a.SampledTokens, a.Parked = a.SampledTokens+b.SampledTokens, a.Parked+b.Parked
	return a
}

// supplied returns the episodes of Play.Source, which only rank 0 has, on all ranks.
func (c *core) supplied(ctx context.Context, source rollout.Source, groups int, o rollout.Options) ([]*data.Episode, rollout.Stats, error) {
	if c.Ranks == nil {
		return source.Collect(ctx, groups, o)
	}
	var own []*data.Episode
	p, err := ranks.Share(ctx, c.Ranks, func() (p playedDeal, err error) {
		before := c.Engine.Stats()
		if own, p.Stats, err = source.Collect(ctx, groups, o); err != nil {
			return p, err
		}
		p.Engine = workSince(before, c.Engine.Stats())
		for _, ep := range own {
			s, err := send(ep, -1)
			if err == nil {
				s.Task, err = json.Marshal(ep.Task)
			}
			if err != nil {
				return p, err
			}
			p.Episodes = append(p.Episodes, s)
		}
		return p, nil
	})
	if err != nil || c.Ranks.First() {
		return own, p.Stats, interrupted(err)
	}
	c.elsewhere = addWork(c.elsewhere, p.Engine)
	own, err = receiveAll(p.Episodes, nil)
	return own, p.Stats, err
}

// scoreOnce scores samples with Scoring.Scorer, each on one rank. The context play cancels only the scoring, not the exchange.
func (c *core) scoreOnce(ctx, play context.Context, samples []reward.Sample) (reward.Composed, error) {
	if c.Ranks == nil {
		return c.o.Scorer.Score(play, samples)
	}
	var own []reward.Sample
	for i := c.Ranks.Rank(); i < len(samples); i += c.Ranks.Size() {
		own = append(own, samples[i])
	}
	if c.o.Scorer.Lockstep() { // an interrupt of one rank would break the connection to the others
		play = ctx
	}
	parts, err := ranks.Gather(ctx, c.Ranks, func() (reward.Composed, error) {
		scored, err := c.o.Scorer.Score(play, own)
		if err != nil && c.o.Scorer.Lockstep() { // the other ranks may wait for this one
			c.Ranks.Break()
		}
		return scored, err
	})
	all := reward.Composed{Scores: make([]float64, len(samples)), Parts: map[string][]reward.Score{}, Turns: make([][]float64, len(samples))}
	if err != nil {
		return all, interrupted(err)
	}
	if len(samples) == 0 {
		return all, nil
	}
	for _, component := range c.o.Scorer.Components {
		all.Parts[component.Name] = make([]reward.Score, len(samples))
	}
	for i := range samples {
		p, k := &parts[i%len(parts)], i/len(parts)
		all.Scores[i] = p.Scores[k]
		if len(p.Turns[k]) > 0 {
			all.Turns[i] = p.Turns[k]
		}
		for name, scores := range all.Parts {
			scores[i] = p.Parts[name][k]
		}
	}
	return all, nil
}
