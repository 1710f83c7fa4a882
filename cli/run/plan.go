package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/plan"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// Plan predicts the memory and the time of a training step.
type Plan struct {
	Parts     []plan.Part  `json:"memory"`
	Needed    int64        `json:"needed_bytes"`
	Available int64        `json:"available_bytes"` // 0: unknown
	Phases    []plan.Phase `json:"step"`
	Steps     int          `json:"steps"` // trainer.total_steps; 0: the number depends on the tasks
	Step      plan.Step    `json:"sizes"`
	// Changes are settings with which the run fits, if it does not fit.
	Changes []Change `json:"changes,omitempty"`
}

// Change is a setting that reduces the memory of a run.
type Change struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Needed int64  `json:"needed_bytes"` // with this change and those before it
}

// Fits reports whether the memory suffices, or is unknown.
func (p *Plan) Fits() bool { return p.Available == 0 || p.Needed <= p.Available }

// Plan predicts a training run of Fit by measuring small models. The argument available is the
// memory for the run in bytes, or 0 for the free memory of this machine; that of a GPU is unknown.
func (r *Run) Plan(ctx context.Context, available int64) (*Plan, error) {
	if r.cfg.Rollout.Engine != "local" {
		return nil, errext.With(errext.Input, `set rollout.engine = "local"`, fmt.Errorf("rollout.engine = %q: an endpoint cannot be trained", r.cfg.Rollout.Engine))
	}
	var open Closers
	thread, compute, err := openDevice(&r.host, &open, r.cfg.Model)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	own := torch.RSS() // the device has loaded the libraries
	p := &planner{host: &r.host, compute: compute, own: own, available: available, onGPU: thread.Device().CUDA, costs: map[string]*plan.Costs{}}
	if p.shape, err = planShape(ctx, &r.host, r.cfg); err != nil {
		return nil, err
	}
	p.timed, p.sized = thread, thread
	if p.onGPU { // the memory of passes can be measured on the host only
		if p.sized, err = torch.NewThread(torch.Device{}); err != nil {
			return nil, errext.With(errext.Native, "", err)
		}
		defer p.sized.Close()
	} else if free, known := torch.FreeMemory(); known && available == 0 {
		p.available = free + own // the run needs this process's memory once
	}
	if err := p.holdsWeights(); err != nil {
		return nil, err
	}
	out, err := p.predict(ctx, r.cfg, true)
	if err != nil || out.Fits() {
		return out, err
	}
	out.Changes, err = p.changes(ctx, r.cfg)
	return out, err
}

// planShape returns the shape of the model of a run.
func planShape(ctx context.Context, h *Host, cfg configs.Config) (model.Config, error) {
	if f := cfg.Model.Fresh; f.Layers > 0 {
		vocabulary := 256 + 2
		if f.Vocabulary == "bpe" {
			vocabulary = f.VocabSize
		}
		return freshConfig(f, vocabulary, cfg.Rollout.MaxContextTokens, 0), nil
	}
	d, err := DescribeModel(ctx, h, cfg.Model.Path)
	if err != nil {
		return model.Config{}, err
	}
	return d.Config, nil
}

// planner predicts configurations that differ in settings of memory.
type planner struct {
	host         *Host
	shape        model.Config
	compute      torch.DType
	timed, sized *torch.Thread // devices on which time and memory are measured
	onGPU        bool
	own          int64 // memory of the program and its libraries
	available    int64
	costs        map[string]*plan.Costs // by the device and the settings that change them
}

// holdsWeights returns an error if the weights alone do not fit, so that no setting helps.
func (p *planner) holdsWeights() error {
	n, err := p.shape.NumParameters()
	if err != nil {
		return errext.With(errext.Model, "", err)
	}
	if weights := int64(n) * int64(p.compute.Size()); p.available > 0 && weights > p.available {
		return errext.With(errext.Check, "take a smaller model, or a machine with more memory",
			fmt.Errorf("the weights alone need %.1f GB in %s, and %.1f GB are available", float64(weights)/1e9, p.compute, float64(p.available)/1e9))
	}
	return nil
}

// measured returns the costs of a configuration's model.
func (p *planner) measured(ctx context.Context, t *torch.Thread, cfg configs.Config, timed bool) (*plan.Costs, error) {
	m := cfg.Model
	o := plan.Options{Config: p.shape, Compute: p.compute, Checkpointing: m.GradientCheckpointing, Rows: min(16, rolloutOptions(p.host, cfg).Concurrency), Untimed: !timed}
	if m.LoRARank > 0 {
		o.LoRA = &model.LoRA{Rank: m.LoRARank, Alpha: m.LoRAAlpha, Dropout: m.LoRADropout, Targets: m.TargetModules, Base: m.Path}
	}
	key := fmt.Sprint(t.Device(), o.Checkpointing, m.LoRARank)
	if c := p.costs[key]; c != nil {
		return c, nil
	}
	c, err := plan.Measure(ctx, t, o)
	if err != nil {
		return nil, errext.WithDefault(errext.Native, err)
	}
	p.costs[key] = c
	return c, nil
}

// predict predicts the memory of a configuration and, if timed is set, its time.
func (p *planner) predict(ctx context.Context, cfg configs.Config, timed bool) (*Plan, error) {
	sized, err := p.measured(ctx, p.sized, cfg, timed && p.sized == p.timed)
	if err != nil {
		return nil, err
	}
	step, err := p.step(ctx, cfg, sized)
	if err != nil {
		return nil, err
	}
	out := &Plan{Available: p.available, Steps: cfg.Trainer.TotalSteps, Step: step}
	if out.Parts, err = sized.Memory(step); err != nil {
		return nil, err
	}
	out.Needed = plan.Total(out.Parts)
	if !timed {
		return out, nil
	}
	clocked, err := p.measured(ctx, p.timed, cfg, true)
	if err != nil {
		return nil, err
	}
	out.Phases = clocked.Time(step)
	return out, nil
}

// step returns the largest sizes of a configuration's steps.
func (p *planner) step(ctx context.Context, cfg configs.Config, costs *plan.Costs) (plan.Step, error) {
	length := cfg.Rollout.MaxContextTokens
	s := plan.Step{
		Episodes: cfg.Data.TrainBatchSize * cfg.Rollout.GroupSize, Context: length,
		Sessions: rolloutOptions(p.host, cfg).Concurrency,
		Passes:   cfg.Actor.PPOEpochs, Reference: cfg.UsesReference(), Critic: cfg.UsesCritic() && !cfg.Critic.Shared,
	}
	for _, e := range cfg.Env {
		turns := e.MaxTurns
		if e.Kind == configs.KindPrompt {
			turns = 1
		}
		s.Sampled = max(s.Sampled, min(length, turns*cfg.Rollout.MaxNewTokens))
	}
	s.Updates = s.Passes
	if n := cfg.Actor.MiniBatchSize; n > 0 {
		s.Updates *= (s.Episodes + n - 1) / n
	}
	s.Old = s.Updates > 1 && !cfg.Algo.RolloutCorrection.BypassMode
	s.MicroTokens = microTokens(policyOptions(cfg).Micro, s.Episodes, length)
	if s.Critic {
		s.MicroTokens = max(s.MicroTokens, microTokens(criticOptions(cfg, 1).Micro, s.Episodes, length))
	}
	if o := cfg.SFT; o.Epochs > 0 {
		s.MicroTokens = max(s.MicroTokens, microTokens(microBatching(o.MicroBatchSize, o.DynamicBatch, o.MaxTokens), o.TrainBatchSize, min(length, cmp.Or(o.MaxLength, length))))
	}
	if f := cfg.Model.Fresh; f.Layers > 0 && f.Walks > 0 {
		s.MicroTokens = max(s.MicroTokens, f.WalkBatchSize*length)
	}
	if s.KVTokens = s.Sessions * length; !p.onGPU {
		s.Other = p.own
	}
	if path := cfg.Reward.ModelPath; path != "" {
		d, err := DescribeModel(ctx, p.host, path)
		if err != nil {
			return s, fmt.Errorf("reward.model_path: %w", err)
		}
		s.Other += int64(d.Parameters) * int64(p.compute.Size())
	}
	if p.onGPU && cfg.Ref.OffloadParams {
		s.Reference = false // it is on the host during the update
	}
	if p.available > 0 && !p.onGPU { // kvTokens makes the cache smaller if memory is short
		empty := s
		empty.KVTokens, empty.MicroTokens, empty.Reference, empty.Critic = 0, 0, false, false
		loaded, err := costs.Memory(empty)
		if err != nil {
			return s, err
		}
		budget := int64(cfg.Rollout.KVCacheFraction * float64(p.available-plan.Total(loaded)))
		s.KVTokens = min(s.KVTokens, max(length, int(budget/costs.KVBytes())))
	}
	return s, nil
}

// microTokens returns the largest number of tokens of a micro-batch.
func microTokens(m learner.MicroBatching, rows, context int) int {
	if m.Rows > 0 {
		rows = min(rows, m.Rows)
	}
	if m.MaxTokens > 0 {
		return min(m.MaxTokens, rows*context)
	}
	return rows * context
}

// errNoChange is returned if no setting makes a run fit.
var errNoChange = errors.New("no setting of micro-batches, gradient checkpointing, rollout.max_sequences and adapters makes this model fit: take a smaller model, lower rollout.max_context_tokens, or use a machine with more memory")

// changes returns settings with which the run fits. It lowers the micro-batches first, which costs
// the least time, and adds adapters last, which change the method.
func (p *planner) changes(ctx context.Context, cfg configs.Config) ([]Change, error) {
	length := cfg.Rollout.MaxContextTokens
	episodes := cfg.Data.TrainBatchSize * cfg.Rollout.GroupSize
	// Each entry makes one change and reports whether it can be made again.
	type reduction struct {
		key    string
		reduce func() (value string, ok bool)
	}
	halve := func(key string, v *int, most, least int) reduction {
		return reduction{key, func() (string, bool) {
			if now := cmp.Or(min(*v, most), most); now > least {
				*v = max(least, now/2)
				return fmt.Sprint(*v), true
			}
			return "", false
		}}
	}
	// Micro-batches of a number of rows must divide the batch.
	divide := func(key string, v *int, batch int) reduction {
		return reduction{key, func() (string, bool) {
			for n := cmp.Or(min(*v, batch), batch) / 2; n > 0; n-- {
				if batch%n == 0 {
					*v = n
					return fmt.Sprint(n), true
				}
			}
			return "", false
		}}
	}
	once := func(key, value string, set func() bool) reduction {
		return reduction{key, func() (string, bool) { return value, set() }}
	}
	actor := divide("actor.micro_batch_size", &cfg.Actor.MicroBatchSize, cmp.Or(cfg.Actor.MiniBatchSize, episodes))
	if cfg.Actor.DynamicBatch {
		actor = halve("actor.max_tokens_per_micro_batch", &cfg.Actor.MaxTokensPerMicroBatch, episodes*length, length)
	}
	list := []reduction{actor}
	if cfg.UsesCritic() && !cfg.Critic.Shared && !cfg.Actor.DynamicBatch {
		list = append(list, divide("critic.micro_batch_size", &cfg.Critic.MicroBatchSize, cmp.Or(cfg.Critic.MiniBatchSize, episodes)))
	}
	if cfg.SFT.Epochs > 0 && !cfg.SFT.DynamicBatch {
		list = append(list, divide("sft.micro_batch_size", &cfg.SFT.MicroBatchSize, cfg.SFT.TrainBatchSize))
	}
	if f := &cfg.Model.Fresh; f.Layers > 0 && f.Walks > 0 {
		list = append(list, halve("model.fresh.walk_batch_size", &f.WalkBatchSize, f.WalkBatchSize, 1))
	}
	list = append(list,
		halve("rollout.max_sequences", &cfg.Rollout.MaxSequences, min(cfg.Rollout.MaxSequences, cfg.Agent.MaxWorkers), 1),
		once("model.gradient_checkpointing", "true", func() bool {
			was := cfg.Model.GradientCheckpointing
			cfg.Model.GradientCheckpointing = true
			return !was
		}),
		once("model.lora_rank", "16", func() bool {
			m := &cfg.Model
			if m.LoRARank > 0 || m.Fresh.Layers > 0 || cfg.UsesCritic() {
				return false
			}
			m.LoRARank = 16
			return true
		}))
	before, err := p.predict(ctx, cfg, false)
	if err != nil {
		return nil, err
	}
	var made []Change
	for _, r := range list {
		last := Change{}
		for {
			value, ok := r.reduce()
			if !ok {
				break
			}
			now, err := p.predict(ctx, cfg, false)
			if err != nil {
				return nil, err
			}
			if now.Needed < before.Needed {
				last = Change{r.key, value, now.Needed}
				before = now
			}
			if now.Fits() {
				return append(made, last), nil
			}
		}
		if last.Key != "" {
			made = append(made, last)
		}
	}
	return nil, errext.With(errext.Check, "", errNoChange)
}
