package run

import (
	"context"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/generate"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// Sampler generates replies with a model. It holds the KV cache, the scheduler
// of sessions and the renderer of the model's chat template.
type Sampler struct {
	Backend   *generate.Backend
	Scheduler *engine.Scheduler
	Renderer  *chat.Renderer
	KVBytes   int64 // size of the KV cache
}

// SamplerOptions configures NewSampler.
type SamplerOptions struct {
	Sequences     int  // concurrent sessions
	MaxContext    int  // tokens of a session
	PrefillTokens int  // prefilled per batch; 0: the engine's default
	NoSharing     bool // disables prefix caching
	Deterministic bool
	MemoryShare   float64 // share of the free memory that the KV cache may take
	Hints         CacheHints
	Teacher       engine.Teacher                      // forces the sampled tokens; nil: they are drawn
	Day           time.Time                           // date that chat templates see
	Wrap          func(engine.Backend) engine.Backend // nil: the scheduler uses Backend itself
}

// CacheHints are the ways to make the KV cache smaller, for error messages.
type CacheHints struct{ Sessions, Context, Share string }

var cacheKeys = CacheHints{"lower rollout.max_sequences", "lower rollout.max_context_tokens", "raise rollout.kv_cache_fraction"}

// playHints are the hints where half of the free memory is used.
func playHints(h *Host) CacheHints {
	return CacheHints{"lower " + h.name("rollout.max_sequences"), "lower " + h.name("rollout.max_context_tokens"), "free some memory"}
}

// NewSampler returns a sampler of m, which is b.Model or its shadow.
func NewSampler(ctx context.Context, b *model.Bundle, m *model.Model, o SamplerOptions) (*Sampler, error) {
	renderer, err := NewRenderer(b, o.Day)
	if err != nil {
		return nil, err
	}
	tokens, err := kvTokens(m, o)
	if err != nil {
		return nil, err
	}
	backend, err := generate.New(ctx, m, generate.Options{KVTokens: tokens, Teacher: o.Teacher})
	if err != nil {
		return nil, errext.With(errext.Native, o.Hints.Sessions+", or "+o.Hints.Context, err)
	}
	used := engine.Backend(backend)
	if o.Wrap != nil {
		used = o.Wrap(backend)
	}
	sched, err := engine.New(used, engine.Options{
		PrefillTokens: o.PrefillTokens,
		ExpectTokens:  o.MaxContext,
		NewDecoder:    renderer.Stream,
		NoSharing:     o.NoSharing,
		Deterministic: o.Deterministic,
	})
	if err != nil {
		backend.Close()
		return nil, err
	}
	return &Sampler{Backend: backend, Scheduler: sched, Renderer: renderer, KVBytes: int64(tokens) * int64(m.CacheBytesPerToken())}, nil
}

// Close waits for the batch in flight and frees the cache.
func (s *Sampler) Close() {
	s.Scheduler.Shutdown()
	s.Backend.Close()
}

// NewRenderer returns the renderer of a model's chat template. day is the date
// that the template sees.
func NewRenderer(b *model.Bundle, day time.Time) (*chat.Renderer, error) {
	if b.ChatTemplate() == "" {
		return nil, errext.With(errext.Model, "use an instruction-tuned model, or add chat_template to its tokenizer_config.json",
			fmt.Errorf("model %s has no chat template", b.Path))
	}
	t, err := chat.Parse(b.ChatTemplate())
	if err != nil {
		return nil, errext.With(errext.Model, "", fmt.Errorf("chat template of %s: %w", b.Path, err))
	}
	r, err := chat.NewRenderer(t, b.Tokenizer, b.TokenizerConfig.TemplateVars(), day, b.EOSTokenIDs()...)
	if err != nil {
		return nil, errext.With(errext.Model, "", fmt.Errorf("chat template of %s: %w", b.Path, err))
	}
	return r, nil
}

// kvTokens returns the number of tokens in the KV cache: enough for every
// session at its longest, or on a CPU as many as fit the share of free memory
// if that is less. The scheduler parks sessions that do not fit.
func kvTokens(m *model.Model, o SamplerOptions) (int, error) {
	free, known := torch.FreeMemory()
	known = known && !m.Thread().Device().CUDA
	return o.kvTokens(m.CacheBytesPerToken(), free, known)
}

// logCacheSize logs the size of the KV cache on a GPU. rollout.kv_cache_fraction
// does not bound it there, since torch/shim cannot query free GPU memory.
func (t *training) logCacheSize(d torch.Device) {
	if !d.CUDA {
		return
	}
	t.host.Log.Info("rollout.kv_cache_fraction does not apply on a GPU: the KV cache has rollout.max_sequences x rollout.max_context_tokens tokens",
		"bytes", t.sampler.KVBytes, "sessions", t.sessions(), "max_context_tokens", t.cfg.Rollout.MaxContextTokens)
}

func (o SamplerOptions) kvTokens(bytesPerToken int, free int64, known bool) (int, error) {
	want := o.Sequences * o.MaxContext
	if !known {
		return want, nil
	}
	budget := int64(o.MemoryShare * float64(free))
	most := int(budget / int64(bytesPerToken))
	if most >= want {
		return want, nil
	}
	if most < o.MaxContext {
		return 0, errext.With(errext.Native, o.Hints.Context+", or "+o.Hints.Share,
			fmt.Errorf("the KV cache may take %d bytes, which hold %d tokens; one episode may need %d", budget, most, o.MaxContext))
	}
	return most, nil
}
