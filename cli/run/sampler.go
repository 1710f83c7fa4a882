package run

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/generate"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// Sampler generates replies with a model. It holds the KV cache, the scheduler
// of sessions and the renderer of the model's chat template.
type Sampler struct {
	Backend   *generate.Backend
	Scheduler *engine.Scheduler
	Renderer  *chat.Renderer // nil with SamplerOptions.Plain

	MaxContext int   // maximum tokens of a session
	KVBytes    int64 // size of the KV cache
}

// SamplerOptions configures NewSampler.
type SamplerOptions struct {
	Sequences     int  // concurrent sessions
	MaxContext    int  // maximum tokens of a session
	PrefillTokens int  // prompt tokens per prefill batch; 0: the engine's default
	NoSharing     bool // disables prefix caching
	Deterministic bool
	EnforceEager  bool                                // on a GPU: without CUDA graphs
	WeightDType   string                              // rollout.weight_dtype
	Plain         bool                                // do not use the chat template, which the model may lack
	MemoryShare   float64                             // on a CPU: share of the free memory that the KV cache may take
	Utilization   float64                             // on a GPU: share of its memory in use once the KV cache is made
	Hint          string                              // hint of the error if the KV cache is too large
	Teacher       engine.Teacher                      // forces the sampled tokens; nil: draw them
	Day           time.Time                           // date for chat templates
	Wrap          func(engine.Backend) engine.Backend // nil: the scheduler uses Backend itself
	Ranks         *ranks.Ranks                        // the processes that call NewSampler together; nil: this one alone
}

// openLocal opens the model of [model], or this rank's part of it, and a sampler of it, whose KV cache may
// take half of the free memory, on a GPU all but a tenth of its memory. It sets o.MaxContext to
// rollout.max_context_tokens, or to the model's positions if this key is 0. The
// functions that release the model and the sampler are added to the parameter open. All ranks of h call openLocal.
func openLocal(ctx context.Context, h *Host, open *Closers, cfg configs.Config, o SamplerOptions) (*model.Bundle, *Sampler, error) {
	_, processes := h.Ranks.Local() // which share the host's memory
	key := h.name("rollout.max_context_tokens")
	var b *model.Bundle
	err := h.Ranks.Each(ctx, func() (err error) {
		if cfg.Model.Device, err = rankDevice(h, cfg.Model.Device); err != nil {
			return err
		}
		if b, err = OpenModel(ctx, h, open, cfg.Model, model.Options{Ranks: h.Ranks.Group()}); err != nil {
			return err
		}
		if limit := b.Model.Config.MaxPositionEmbeddings; cfg.Rollout.MaxContextTokens > limit {
			return errext.With(errext.Input, fmt.Sprintf("set %s to %d or less", key, limit), fmt.Errorf("the model has %d positions", limit))
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	o.Ranks, o.MaxContext = h.Ranks, cmp.Or(cfg.Rollout.MaxContextTokens, b.Model.Config.MaxPositionEmbeddings)
	o.EnforceEager, o.WeightDType = cfg.Rollout.EnforceEager, cfg.Rollout.WeightDType
	o.MemoryShare, o.Utilization, o.Hint = 0.5/float64(max(1, processes)), 0.9, fmt.Sprintf("lower %s or %s, or free some memory", h.name("rollout.max_sequences"), key)
	s, err := NewSampler(ctx, b, b.Model, o)
	if err != nil {
		return nil, nil, err
	}
	open.AddFunc(s.Close)
	return b, s, nil
}

// NewSampler returns a sampler of m, which is b.Model, a copy of b.Model in another dtype (model.Shadow), or this rank's part of it. All
// ranks of o.Ranks call it.
func NewSampler(ctx context.Context, b *model.Bundle, m *model.Model, o SamplerOptions) (*Sampler, error) {
	var renderer *chat.Renderer
	var budget int64
	var known bool
	err := o.Ranks.Each(ctx, func() (err error) {
		if !o.Plain {
			if renderer, err = NewRenderer(b, o.Day); err != nil {
				return err
			}
		}
		if err = o.checkWeightDType(m); err != nil {
			return err
		}
		budget, known, err = o.cacheBudget(m.Thread().Device())
		return err
	})
	if err != nil {
		return nil, err
	}
	if m.Ranks() != nil {
		if budget, known, err = smallestBudget(ctx, m, budget, known); err != nil {
			return nil, err
		}
	}
	var s *Sampler
	err = o.Ranks.Each(ctx, func() (err error) {
		s, err = o.open(ctx, b, m, renderer, budget, known)
		return err
	})
	return s, err
}

// open makes the KV cache of m, of at most budget bytes if known, and the scheduler. renderer is nil with o.Plain.
func (o SamplerOptions) open(ctx context.Context, b *model.Bundle, m *model.Model, renderer *chat.Renderer, budget int64, known bool) (*Sampler, error) {
	newDecoder := func() func(int32) string { return b.Tokenizer.Stream(true).Next }
	if renderer != nil {
		newDecoder = renderer.Stream
	}
	tokens, err := o.kvTokens(m.CacheBytesPerToken(), budget, known)
	if err != nil {
		return nil, err
	}
	backend, err := generate.New(ctx, m, generate.Options{KVTokens: tokens, Teacher: o.Teacher, EnforceEager: o.EnforceEager, Int8: o.WeightDType == configs.Int8})
	if err != nil {
		return nil, errext.With(errext.Native, o.Hint, err)
	}
	used := engine.Backend(backend)
	if o.Wrap != nil {
		used = o.Wrap(backend)
	}
	sched, err := engine.New(used, engine.Options{
		PrefillTokens: o.PrefillTokens,
		ExpectTokens:  o.MaxContext,
		NewDecoder:    newDecoder,
		NoSharing:     o.NoSharing,
		Deterministic: o.Deterministic,
	})
	if err != nil {
		backend.Close()
		return nil, err
	}
	return &Sampler{Backend: backend, Scheduler: sched, Renderer: renderer, MaxContext: o.MaxContext, KVBytes: int64(tokens) * int64(m.CacheBytesPerToken())}, nil
}

// checkWeightDType returns an error if m cannot sample with the weights of o.WeightDType.
func (o SamplerOptions) checkWeightDType(m *model.Model) error {
	switch {
	case o.WeightDType != configs.Int8:
	case !m.Thread().Device().IsCPU():
		return errext.With(errext.Input, `set rollout.weight_dtype to "auto", or model.device to "cpu"`,
			fmt.Errorf("rollout.weight_dtype = %q needs the CPU, and the model is on %s", configs.Int8, m.Thread().Device()))
	case m.Ranks() != nil:
		return errext.With(errext.Input, `set rollout.weight_dtype to "auto", or use one process`,
			fmt.Errorf("rollout.weight_dtype = %q needs a whole model, and %d processes hold the model together", configs.Int8, m.Ranks().Size()))
	}
	return nil
}

// Close waits for the batch in flight and frees the cache.
func (s *Sampler) Close() {
	s.Scheduler.Shutdown()
	s.Backend.Close()
}

// NewRenderer returns the renderer of a model's chat template. The parameter day is
// the date that templates write into prompts.
func NewRenderer(b *model.Bundle, day time.Time) (*chat.Renderer, error) {
	if b.ChatTemplate() == "" {
		return nil, errext.With(errext.Model, "use an instruction-tuned model, or add chat_template to its tokenizer_config.json",
			fmt.Errorf("model %s has no chat template", b.Path))
	}
	var r *chat.Renderer
	t, err := chat.Parse(b.ChatTemplate())
	if err == nil {
		r, err = chat.NewRenderer(t, b.Tokenizer, b.TokenizerConfig.TemplateVars(), day, b.EOSTokenIDs()...)
	}
	if err != nil {
		return nil, errext.With(errext.Model, "", fmt.Errorf("chat template of %s: %w", b.Path, err))
	}
	return r, nil
}

// cacheBudget returns the bytes that the KV cache may take on a device. known is false if the host's free memory is unknown.
func (o SamplerOptions) cacheBudget(d torch.Device) (budget int64, known bool, err error) {
	if d.IsCPU() {
		free, known := torch.FreeMemory()
		return int64(o.MemoryShare * float64(free)), known, nil
	}
	m, err := d.Memory()
	if err != nil {
		return 0, false, errext.With(errext.Native, "", err)
	}
	used := m.Total - m.Free
	return max(int64(o.Utilization*float64(m.Total))-used, 0), true, nil
}

// kvTokens returns the number of tokens in the KV cache: enough for every
// session at its longest, or fewer if the budget in bytes is known and too small.
// The scheduler parks sessions that do not fit.
func (o SamplerOptions) kvTokens(bytesPerToken int, budget int64, known bool) (int, error) {
	want := o.Sequences * o.MaxContext
	if !known {
		return want, nil
	}
	most := int(budget / int64(bytesPerToken))
	if most >= want {
		return want, nil
	}
	if most < o.MaxContext {
		return 0, errext.With(errext.Native, o.Hint,
			fmt.Errorf("the KV cache may take %d bytes (%d tokens), but one episode may need %d tokens", budget, most, o.MaxContext))
	}
	return most, nil
}
