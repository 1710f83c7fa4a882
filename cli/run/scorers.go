package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/reward/external"
	"github.com/openmanus/openmanus/torch"
)

// openComposer opens the score functions of a [reward] section. Without score
// functions it returns nil, and the environment's reward is the score. It calls
// rewardModel to open the section's reward model if a component uses it. The caller
// closes the result.
func openComposer(h *Host, r configs.Reward, rewardModel func() (reward.Scorer, error)) (*reward.Composer, error) {
	list := r.Components
	if r.ScoreFn != "" {
		list = []configs.Component{scoreFnComponent(r)}
	}
	if len(list) == 0 {
		return nil, nil
	}
	c := &reward.Composer{}
	for _, p := range list {
		open := func() (reward.Scorer, error) { return openScorer(h, p, r, scoreTimeout) }
		if p.Fn == configs.ModelScoreFn {
			open = rewardModel
		}
		scorer, err := open()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("reward component %s: %w", p.Name, err), c.Close())
		}
		c.Components = append(c.Components, reward.Component{Name: p.Name, Weight: p.Weight, Scorer: scorer})
	}
	return c, nil
}

// scoreFnComponent returns the component that reward.score_fn stands for.
func scoreFnComponent(r configs.Reward) configs.Component {
	one := Schema.DefaultComponent(r.ScoreFn)
	if configs.ExternalScoreFn(r.ScoreFn) {
		one.Name, _, _ = strings.Cut(r.ScoreFn, ":") // the scheme: http, https or exec
	}
	one.Fn, one.Params["format_score"], one.Params["min_answer_tags"] = r.ScoreFn, r.FormatScore, r.MinAnswerTags
	return one
}

// scoreTimeout is the key of the time limit of score functions in [reward].
const scoreTimeout = "reward.score_timeout_s"

// openScorer opens a score function other than the reward model. The parameter
// timeoutKey is the key of the time limit, for errors.
func openScorer(h *Host, p configs.Component, r configs.Reward, timeoutKey string) (reward.Scorer, error) {
	if !configs.ExternalScoreFn(p.Fn) {
		s, err := reward.Open(p.Fn, p.Params)
		return s, errext.With(errext.Input, "", err)
	}
	s, err := external.Open(p.Fn, external.Options{
		Timeout: Seconds(r.ScoreTimeoutS), Batch: r.ScoreBatchSize, Dir: h.Dir, Env: h.Environ(), Log: h.Log, TimeoutName: h.name(timeoutKey),
	})
	if is[*external.Error](err) { // the program was not found
		return s, errext.With(errext.Env, "the first word after exec: must be a program in PATH, or a path relative to the working directory of openmanus", err)
	}
	return s, errext.With(errext.Input, "", err)
}

// openRewardModel opens the reward model of a [reward] section. The parameter opening
// is the beginning of the chats that the model will score, or nil if unknown. load loads the weights; nil: one process has all of them.
func openRewardModel(ctx context.Context, h *Host, thread *torch.Thread, dt torch.DType, r configs.Reward, opening []data.Message, load func(*model.Model) error) (*learner.RewardModel, error) {
	b, err := openWeights(ctx, h, thread, r.ModelPath, model.Options{DType: dt, Classifier: true, Deferred: load != nil})
	if err != nil {
		return nil, fmt.Errorf("reward.model_path: %w", err)
	}
	if load != nil {
		if err := load(b.Model); err != nil {
			b.Close()
			return nil, err
		}
	}
	m, err := learner.NewRewardModel(ctx, b, learner.RewardModelOptions{Rows: r.ModelMicroBatchSize, MaxTokens: r.ModelMaxTokens, Offload: r.ModelOffloadParams, Opening: opening})
	if err != nil {
		b.Close()
		return nil, errext.With(errext.Model, "", fmt.Errorf("reward.model_path: %w", err))
	}
	return m, nil
}

// scoreFnsOf returns the names of the score functions of a [reward] section,
// which may include "".
func scoreFnsOf(r configs.Reward) []string {
	fns := []string{r.ScoreFn}
	for _, p := range r.Components {
		fns = append(fns, p.Fn)
	}
	return fns
}

// CheckPrograms checks that the programs of score functions exist.
func CheckPrograms(h *Host, cfg configs.Config) error {
	r := cfg.Reward
	fns := scoreFnsOf(r)
	for _, e := range cfg.Env {
		if e.Kind == configs.KindPrompt {
			fns = append(fns, e.ScoreFn)
		}
	}
	for _, fn := range fns {
		if !configs.ExternalScoreFn(fn) {
			continue
		}
		scorer, err := openScorer(h, configs.Component{Fn: fn}, r, scoreTimeout)
		if err == nil {
			err = scorer.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkGroundTruth returns an error if a score function needs a ground truth that
// a task lacks.
func checkGroundTruth(r configs.Reward, tasks []data.Task) error {
	for _, fn := range scoreFnsOf(r) {
		f, err := reward.Functions.Lookup(fn)
		if err != nil { // an external function may not need a ground truth
			continue
		}
		for _, t := range tasks {
			_, bySource := reward.SourceFunction(t.Source)
			if t.GroundTruth == "" && (f.NeedsTruth || fn == "data_source" && bySource) {
				return errext.With(errext.Input, "give task files with the column reward_model.ground_truth, or choose another score function",
					fmt.Errorf("score function %s: task %s: %w", fn, t.ID, reward.ErrNoGroundTruth))
			}
		}
	}
	return nil
}

// openScorer opens the score functions of reinforcement learning.
func (t *training) openScorer(ctx context.Context) error {
	if t.mode != reinforced {
		return nil
	}
	train, val := t.tasks()
	err := checkGroundTruth(t.cfg.Reward, slices.Concat(train, val))
	if err != nil {
		return err
	}
	rewardModel := func() (reward.Scorer, error) {
		var opening []data.Message
		if t.dump == nil && len(t.envs) > 0 { // environments of a dump have no setup
			if opening, err = agent.Opening("Instruction.", "Observation.", t.envs[0].setup.Options.InstructionRole); err != nil {
				return nil, err
			}
		}
		m, err := openRewardModel(ctx, t.host, t.thread, t.compute, t.cfg.Reward, opening, func(m *model.Model) error { return t.load(ctx, m, true) })
		if err != nil {
			return nil, err
		}
		t.rewardBytes += m.Bytes()
		return m, nil
	}
	if t.scorer, err = openComposer(t.host, t.cfg.Reward, rewardModel); err != nil || t.scorer == nil {
		return err
	}
	t.open.Add(t.scorer.Close)
	return t.startScorer(ctx)
}

// startScorer starts the programs of score functions, or returns an error if a program
// has ended. It is called before the model is loaded, and again before the
// first episode.
func (t *training) startScorer(ctx context.Context) error {
	if t.scorer == nil {
		return nil
	}
	for _, c := range t.scorer.Components {
		if p, ok := c.Scorer.(external.Starter); ok {
			if err := p.Start(ctx); err != nil {
				return errext.With(errext.Env, "run the command of the program in a shell to find the cause", fmt.Errorf("reward component %s: %w", c.Name, err))
			}
		}
	}
	return nil
}
