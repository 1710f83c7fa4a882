package run

import (
	"cmp"
	"context"
	"fmt"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/plan"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
)

// Plan predicts the memory and the time of a training step.
type Plan struct {
	Layout
	Phase   string      `json:"phase"`  // in which a process needs the most memory
	Parts   []plan.Part `json:"memory"` // of a process that trains
	Needed  int64       `json:"needed_bytes"`
	Workers *Workers    `json:"workers,omitempty"`
	// Machine is the memory of all processes of a machine, on that with the largest.
	Machine   int64        `json:"machine_bytes"`
	Available int64        `json:"available_bytes"` // of a machine, or of the GPU of each process; 0: unknown
	Phases    []plan.Phase `json:"step"`
	Steps     int          `json:"steps"` // trainer.total_steps; 0: the number depends on the tasks
	Step      plan.Step    `json:"sizes"`
	// Changes are settings with which the run fits, if it does not fit.
	Changes []Change `json:"changes,omitempty"`

	onGPU bool
}

// Layout is the number of processes of a planned run.
type Layout struct {
	Processes int `json:"processes"` // on each machine
	Machines  int `json:"machines"`
}

// Workers predicts the memory of the processes that only play.
type Workers struct {
	Processes int         `json:"processes"`
	Parts     []plan.Part `json:"memory"` // of each
	Needed    int64       `json:"needed_bytes"`
}

// Change is a setting that reduces the memory of a run.
type Change struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Needed int64  `json:"needed_bytes"` // with this change and those before it; see Plan.Compared
}

// Compared returns the memory that must be available: of all processes of a machine, or of one process with its GPU.
func (p *Plan) Compared() int64 {
	switch {
	case !p.onGPU:
		return p.Machine
	case p.Workers != nil:
		return max(p.Needed, p.Workers.Needed)
	}
	return p.Needed
}

// Fits reports whether the memory suffices, or is unknown.
func (p *Plan) Fits() bool { return p.Available == 0 || p.Compared() <= p.Available }

// Plan predicts a training run of Fit by measuring small models. The argument available is the memory of a machine or, on GPUs,
// of the GPU of each process, in bytes, or 0 for the free memory of this machine; that of a GPU is unknown.
func (r *Run) Plan(ctx context.Context, layout Layout, available int64) (*Plan, error) {
	if r.cfg.Rollout.Engine != "local" {
		return nil, errext.With(errext.Input, `set rollout.engine = "local"`, fmt.Errorf("rollout.engine = %q: an endpoint cannot be trained", r.cfg.Rollout.Engine))
	}
	all := layout.Processes * layout.Machines
	if err := cmp.Or(checkTensorParallel(r.cfg, all, r.cfg.Serve.Listen != ""), checkWorkers(r.cfg.Dist.RolloutProcesses, all)); err != nil {
		return nil, err
	}
	defer torch.SetNumThreads(torch.NumThreads())
	shareCPUs(&r.host, dist.Env{LocalSize: layout.Processes}) // the times are those of a process with its share
	var open Closers
	thread, compute, err := openDevice(&r.host, &open, r.cfg.Model)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	own := torch.RSS() // the device has loaded the libraries
	p := &planner{host: &r.host, layout: layout, compute: compute, own: own, available: available, onGPU: thread.Device().CUDA, costs: map[string]*plan.Costs{}}
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
	if err := p.holdsWeights(r.cfg); err != nil {
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
	layout       Layout
	shape        model.Config
	compute      torch.DType
	timed, sized *torch.Thread // devices on which time and memory are measured
	onGPU        bool
	own          int64 // memory of the program and its libraries
	available    int64
	costs        map[string]*plan.Costs // by the device and the settings that change them
}

// holdsWeights returns an error if the weights alone do not fit, so that no setting of memory helps.
func (p *planner) holdsWeights(cfg configs.Config) error {
	n, err := p.shape.NumParameters()
	if err != nil {
		return errext.With(errext.Model, "", err)
	}
	weights := int64(n) * int64(p.compute.Size()) / int64(cfg.Rollout.TensorParallel)
	if !p.onGPU {
		weights *= int64(p.layout.Processes)
	}
	if p.available > 0 && weights > p.available {
		return errext.With(errext.Check, "take a smaller model, or a machine with more memory",
			fmt.Errorf("the weights alone need %.1f GB in %s, and %.1f GB are available", float64(weights)/1e9, p.compute, float64(p.available)/1e9))
	}
	return nil
}

// measured returns the costs of a configuration's model.
func (p *planner) measured(ctx context.Context, t *torch.Thread, cfg configs.Config, timed bool) (*plan.Costs, error) {
	m := cfg.Model
	o := plan.Options{Config: p.shape, Compute: p.compute, Checkpointing: m.GradientCheckpointing || p.ranks(cfg).Recompute(), Rows: min(16, rolloutOptions(p.host, cfg).Concurrency), Untimed: !timed,
		Int8: cfg.Rollout.WeightDType == configs.Int8}
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
	out := &Plan{Layout: p.layout, Available: p.available, Steps: cfg.Trainer.TotalSteps, Step: step, onGPU: p.onGPU}
	if err := p.memory(out, sized); err != nil {
		return nil, err
	}
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

// memory predicts the memory of the processes that train and, if there are any, of those that only play.
func (p *planner) memory(out *Plan, costs *plan.Costs) error {
	trains := out.Step
	if trains.Ranks.Workers > 0 {
		trains.KVTokens = min(trains.KVTokens, trains.Context) // for one session
	}
	m, err := costs.Memory(trains)
	if err != nil {
		return err
	}
	out.Phase, out.Parts, out.Needed = m.Phase, m.Parts, plan.Total(m.Parts)
	if out.Machine = int64(out.Processes) * out.Needed; trains.Ranks.Workers == 0 {
		return nil
	}
	if m, err = costs.WorkerMemory(out.Step); err != nil {
		return err
	}
	w := &Workers{trains.Ranks.Workers, m.Parts, plan.Total(m.Parts)}
	out.Workers = w
	// The last ranks are the workers, so that the first machine has the fewest of them and the last machine the most.
	together := func(workers int) int64 {
		return int64(out.Processes-workers)*out.Needed + int64(workers)*w.Needed
	}
	out.Machine = max(together(max(0, out.Processes-trains.Ranks.Trainers)), together(min(out.Processes, w.Processes)))
	return nil
}
