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

// Sampler is a model that can be talked to: KV cache, scheduler and the
// renderer of its chat template.
type Sampler struct {
	backend   *generate.Backend
	Scheduler *engine.Scheduler
	Renderer  *chat.Renderer
	KVBytes   int64 // of the cache
}

type SamplerOptions struct {
	Sequences     int  // sessions that play at once
	MaxContext    int  // tokens of a session
	PrefillTokens int  // in one batch; 0: the engine's own default
	NoSharing     bool // every context is computed from its first token
	Deterministic bool
	MemoryShare   float64 // of the free memory, for the KV cache
	Hints         CacheHints
	Teacher       engine.Teacher // nil: the sampler decides what is drawn
	Day           time.Time      // that chat templates are told
}

// CacheHints says how a user of the command lowers what the KV cache takes.
type CacheHints struct{ Sessions, Context, Share string }

var (
	cacheKeys  = CacheHints{"lower rollout.max_sequences", "lower rollout.max_context_tokens", "raise rollout.kv_cache_fraction"}
	CacheFlags = CacheHints{"lower --concurrency", "lower --max-context-tokens", "free some memory"}
)

// NewSampler puts a sampler on m, which is b's model or its shadow.
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
	sched, err := engine.New(backend, engine.Options{
		PrefillTokens: o.PrefillTokens,
		ExpectTokens:  o.MaxContext,
		NewDecoder:    engine.IncrementalDecoder(renderer.Decode),
		NoSharing:     o.NoSharing,
		Deterministic: o.Deterministic,
	})
	if err != nil {
		backend.Close()
		return nil, err
	}
	return &Sampler{backend: backend, Scheduler: sched, Renderer: renderer, KVBytes: int64(tokens) * int64(m.CacheBytesPerToken())}, nil
}

// Close waits for the batch in flight and frees the cache.
func (s *Sampler) Close() {
	s.Scheduler.Shutdown()
	s.backend.Close()
}

// NewRenderer makes the renderer of a model's chat template, which is told the
// day.
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

// kvTokens sizes the KV cache: room for every session at its longest, or, on
// the host, what the share of free memory pays for where that is less. The
// scheduler parks sessions that do not fit.
func kvTokens(m *model.Model, o SamplerOptions) (int, error) {
	free, known := torch.FreeMemory()
	known = known && !m.Thread().Device().CUDA
	return o.kvTokens(m.CacheBytesPerToken(), free, known)
}

// noteCache says what the KV cache takes on a GPU, where rollout.kv_cache_fraction
// bounds nothing: torch/shim has no call that asks for its free memory.
func (t *training) noteCache(d torch.Device) {
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
