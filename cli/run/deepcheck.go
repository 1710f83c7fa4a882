package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent/llm/hub"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/reward/external"
)

// Checked is one result of DeepCheck.
type Checked struct {
	Key     string // the key that names the checked thing
	Finding string // the facts, or the reason for skipping
	Err     error  // the fault; nil: none
	Skipped bool   // the thing cannot be checked before the run
}

// deepLimit bounds the check of one server or score function.
const deepLimit = 60 * time.Second

// DeepCheck opens everything that a configuration names, as a run does: the headers, tokenizers and chat templates of models, the
// tasks, one instance on every server, and the score functions with one sample. It fetches no models, loads no
// weights, and starts no servers of env.launch.
func DeepCheck(ctx context.Context, host Host, cfg configs.Config) []Checked {
	h := host.WithDefaults()
	d := &deepCheck{h: &h, cfg: cfg}
	d.models(ctx)
	for _, e := range cfg.Env {
		tasks := d.tasks(ctx, e)
		d.servers(ctx, e, tasks)
		if d.sample == nil && len(tasks) > 0 {
			d.sample = &tasks[0]
		}
	}
	d.scorers(ctx)
	return d.out
}

type deepCheck struct {
	h      *Host
	cfg    configs.Config
	sample *data.Task // task of the sample that score functions get; nil: no tasks
	out    []Checked
}

// add records the result of a check: the facts, or an error.
func (d *deepCheck) add(key, finding string, err error) {
	d.out = append(d.out, Checked{Key: key, Finding: finding, Err: err})
}

func (d *deepCheck) skip(key, why string) {
	d.out = append(d.out, Checked{Key: key, Finding: why, Skipped: true})
}

func (d *deepCheck) models(ctx context.Context) {
	cfg := d.cfg
	for _, m := range []struct {
		key, name string
		check     func(ctx context.Context, name string) (string, error)
	}{
		{"model.path", cfg.Model.Path, d.policy}, {"model.tokenizer_path", cfg.Model.TokenizerPath, nil}, {"ref.path", cfg.Ref.Path, d.describe},
		{"critic.path", cfg.Critic.Path, d.describe}, {"reward.model_path", cfg.Reward.ModelPath, d.rewardModel},
	} {
		if m.name == "" || m.key == "model.path" && cfg.Rollout.Engine != "local" {
			continue
		}
		_, err := LookUpModel(d.h, m.name)
		switch {
		case errors.Is(err, hub.ErrNotCached):
			d.skip(m.key, err.Error())
		case err != nil || m.check == nil:
			d.add(m.key, m.name, err)
		default:
			finding, err := m.check(ctx, m.name)
			d.add(m.key, finding, err)
		}
	}
	if cfg.Model.Path == "" && cfg.Model.Fresh.Layers > 0 {
		d.skip("model.path", "a new model is made at the start of the run")
	}
}

// describe returns the facts about a model.
func (d *deepCheck) describe(ctx context.Context, name string) (string, error) {
	m, err := DescribeModel(ctx, d.h, name)
	if err != nil {
		return "", err
	}
	return factsOf(m), nil
}

func factsOf(m *model.Description) string {
	return fmt.Sprintf("%s, %.1f million parameters, %.1f MB, %d tokens, %d positions", m.Config.ModelType, float64(m.Parameters)/1e6, float64(m.WeightBytes)/1e6, m.Tokens, m.Config.MaxPositionEmbeddings)
}

// policy checks the trained model: its chat template and its positions.
func (d *deepCheck) policy(ctx context.Context, name string) (string, error) {
	m, err := DescribeModel(ctx, d.h, name)
	if err != nil {
		return "", err
	}
	if limit, most := d.cfg.Rollout.MaxContextTokens, m.Config.MaxPositionEmbeddings; limit > most {
		return "", errext.With(errext.Input, fmt.Sprintf("set rollout.max_context_tokens to %d or less", most), fmt.Errorf("rollout.max_context_tokens is %d, the model has %d positions", limit, most))
	}
	b := &model.Bundle{Tokenizer: m.Tokenizer, TokenizerConfig: m.TokenizerConfig, Path: name}
	if _, err := NewRenderer(b, d.h.Now()); err != nil {
		return "", err
	}
	return factsOf(m) + ", chat template", nil
}

func (d *deepCheck) rewardModel(ctx context.Context, name string) (string, error) {
	m, err := DescribeModel(ctx, d.h, name)
	if err == nil {
		err = m.CheckReward()
	}
	if err != nil {
		return "", err
	}
	return factsOf(m), nil
}

// tasks counts the tasks of an [[env]] table, and returns them, validation tasks first.
func (d *deepCheck) tasks(ctx context.Context, e configs.Env) []data.Task {
	var all []data.Task
	for _, list := range []struct {
		key     string
		entries []string
	}{{"val_tasks", e.ValTasks}, {"tasks", e.Tasks}} {
		if len(list.entries) == 0 {
			continue
		}
		key := "env." + e.Called() + "." + list.key
		spec, err := SpecOf(e)
		var tasks []data.Task
		if err == nil {
			tasks, err = LoadTasks(ctx, d.h, spec, ConfiguredTasks(e, list.key, list.entries, 0, d.cfg.Data))
		}
		truths := 0
		for _, t := range tasks {
			if t.GroundTruth != "" {
				truths++
			}
		}
		finding := fmt.Sprintf("%d tasks", len(tasks))
		if truths > 0 {
			finding += fmt.Sprintf(", %d with a ground truth", truths)
		}
		if err == nil && len(tasks) == 0 {
			err = errext.With(errext.Input, "give other tasks", errors.New("no tasks are left"))
		}
		d.add(key, finding, err)
		all = append(all, tasks...)
	}
	return all
}

// servers creates an instance on every server, starts a task on it and closes it.
func (d *deepCheck) servers(ctx context.Context, e configs.Env, tasks []data.Task) {
	key := "env." + e.Called() + ".servers"
	if e.Launch {
		d.skip("env."+e.Called()+".launch", fmt.Sprintf("the run starts %d servers of %s", e.NumServers, cmp.Or(e.Checkout, strings.Join(e.Command, " "))))
		return
	}
	if len(tasks) == 0 {
		d.skip(key, "there is no task to start")
		return
	}
	if len(e.Servers) == 0 {
		where := "built-in server"
		if e.Kind == configs.KindPrompt {
			where = "no server"
		}
		finding, err := d.instance(ctx, e, tasks[0])
		d.add(key, where+": "+finding, err)
		return
	}
	for _, url := range e.Servers {
		one := e
		one.Servers = []string{url}
		finding, err := d.instance(ctx, one, tasks[0])
		d.add(key, url+": "+finding, err)
	}
}

// instance starts a task on a new instance of an environment with one server.
func (d *deepCheck) instance(ctx context.Context, e configs.Env, task data.Task) (finding string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, deepLimit, fmt.Errorf("no answer for %v", deepLimit))
	defer cancel()
	h := *d.h
	h.WaitHealthy = time.Second // the check does not wait for servers that are starting
	w, err := OpenWorld(ctx, &h, e, WorldOptions{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	lease, err := w.Pool.Acquire(ctx)
	if err != nil {
		return "", withServerHint(err)
	}
	obs, err := env.ResetTask(ctx, lease.Client(), task)
	if err != nil {
		lease.Fail(err)
		return "", errext.With(errext.Env, "openmanus env check examines the server in detail", fmt.Errorf("reset task %s: %w", task.ID, err))
	}
	lease.Release()
	return fmt.Sprintf("instance created, task %s started (%d characters), closed", task.ID, len(obs.Text)), nil
}

// scorers scores a sample with every score function.
func (d *deepCheck) scorers(ctx context.Context) {
	r := d.cfg.Reward
	list := slices.Clone(r.Components)
	key := "reward.components."
	if r.ScoreFn != "" {
		list, key = []configs.Component{scoreFnComponent(r)}, "reward.score_fn "
	}
	for _, p := range list {
		name := key + p.Name
		if p.Fn == configs.ModelScoreFn {
			d.skip(name, "the reward model of reward.model_path, whose weights are not loaded")
			continue
		}
		finding, err := d.score(ctx, p)
		d.add(name, finding, err)
	}
}

// score starts a score function and scores a short reply.
func (d *deepCheck) score(ctx context.Context, p configs.Component) (finding string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, deepLimit, fmt.Errorf("no answer for %v", deepLimit))
	defer cancel()
	scorer, err := openScorer(d.h, p, d.cfg.Reward, scoreTimeout)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, scorer.Close()) }()
	if s, ok := scorer.(external.Starter); ok {
		if err := s.Start(ctx); err != nil {
			return "", errext.With(errext.Env, "run the command of the program in a shell to find the cause", err)
		}
	}
	const reply = "<think>a sample</think><answer>1</answer>"
	s := reward.Sample{ID: "sample", Prompt: "a sample", Response: reply, Tokens: 1, Messages: []data.Message{{Role: "user", Content: "a sample"}, {Role: "assistant", Content: reply}}}
	if d.sample != nil {
		s.ID, s.Source, s.GroundTruth = d.sample.ID, d.sample.Source, d.sample.GroundTruth
	}
	scores, err := scorer.Score(ctx, []reward.Sample{s})
	switch {
	case err != nil:
		return "", errext.WithDefault(CodeOf(ctx, err), err)
	case len(scores) != 1:
		return "", errext.With(errext.Env, "", fmt.Errorf("%d scores for one sample", len(scores)))
	}
	return fmt.Sprintf("%s scores a sample of task %s with %v", strings.TrimSpace(p.Fn), s.ID, scores[0].Value), nil
}
