package run

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
)

// GenerateOptions are the options of Generate that are not configuration keys.
type GenerateOptions struct {
	In, Out     string // parquet, or JSON objects
	PromptKey   string // column of the prompts
	ResponseKey string // name of the new column of replies
	Force       bool   // replace Out and its progress file
}

// GenerateResult describes the output of Generate.
type GenerateResult struct {
	Rows    int
	Samples int   // replies per row
	Tokens  int64 // total number of tokens in the replies
	// Sources is set if every row has a known data_source, Truths if every row has
	// a ground truth.
	Sources, Truths bool
}

// generateWork lists everything that the replies depend on.
type generateWork struct {
	Command          string  `json:"command"`
	Input            string  `json:"input_sha256"`
	Weights          string  `json:"weights"`
	Dtype            string  `json:"dtype"`
	PromptKey        string  `json:"prompt_key"`
	Samples          int     `json:"samples"`
	MaxNewTokens     int     `json:"max_new_tokens"`
	MaxContextTokens int     `json:"max_context_tokens"`
	Temperature      float64 `json:"temperature"`
	Greedy           bool    `json:"greedy"`
	TopP             float64 `json:"top_p"`
	TopK             int     `json:"top_k"`
	Seed             uint64  `json:"seed"`
}

// replies is the record of a finished row.
type replies struct {
	Texts  []string `json:"texts"`
	Tokens []int64  `json:"tokens"`
}

// Generate answers every prompt of a file rollout.val.group_size times with the
// sampling settings rollout.val, rollout.top_p and rollout.top_k, and adds the
// replies as columns. A progress file keeps finished rows. After an interruption the
// same call resumes from this file.
func (r *Run) Generate(ctx context.Context, o GenerateOptions) (result GenerateResult, err error) {
	h := &r.host
	in, err := readTable(ctx, h, o.In, o.Out, o.Force, o.ResponseKey, tokensKey(o.ResponseKey))
	if err != nil {
		return result, err
	}
	result = GenerateResult{Rows: in.Len(), Samples: r.cfg.Rollout.Val.GroupSize, Sources: true, Truths: true}
	prompts, err := mapRows(in, o.In, func(_ int, row map[string]any) ([]data.Message, error) {
		result.noteColumns(row)
		return promptOf(row, o.PromptKey)
	})
	if err != nil {
		return result, err
	}
	hash, err := h.HashFile(o.In)
	if err != nil {
		return result, err
	}
	var open Closers
	defer func() { err = errors.Join(err, open.Close()) }()
	cfg := r.cfg
	b, sampler, err := openLocal(ctx, h, &open, cfg, SamplerOptions{Sequences: min(cfg.Rollout.MaxSequences, in.Len()*result.Samples), Day: h.Now()})
	if err != nil {
		return result, err
	}
	cfg.Rollout.MaxContextTokens = sampler.MaxContext
	temperature, greedy := sampledAt(cfg)
	weights, err := b.Model.Hash(ctx)
	if err != nil {
		return result, errext.With(errext.Native, "", err)
	}
	work := generateWork{
		"generate", hash, weights, cfg.Model.ComputeDtype, o.PromptKey, result.Samples,
		cfg.Rollout.MaxNewTokens, cfg.Rollout.MaxContextTokens, temperature, greedy, cfg.Rollout.TopP, cfg.Rollout.TopK, cfg.Trainer.Seed,
	}
	done, err := openRowFile(h, o.Out, work, o.Force, func(i int, row replies) bool {
		return i >= 0 && i < len(prompts) && len(row.Texts) == result.Samples && len(row.Tokens) == result.Samples
	})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, done.close(err == nil)) }()
	g := &generation{host: h, cfg: cfg, in: o.In, sampler: sampler}
	if err := g.run(ctx, prompts, done); err != nil {
		return result, err
	}
	texts, tokens := make([][]string, len(prompts)), make([][]int64, len(prompts))
	for i := range prompts {
		texts[i], tokens[i] = done.rows[i].Texts, done.rows[i].Tokens
		for _, n := range tokens[i] {
			result.Tokens += n
		}
	}
	if err := errors.Join(table.Add(in, o.ResponseKey, texts), table.Add(in, tokensKey(o.ResponseKey), tokens)); err != nil {
		return result, err
	}
	return result, writeTable(h, in, o.Out, o.Force)
}

// noteColumns records whether a row has a known data source and a ground truth.
func (g *GenerateResult) noteColumns(row map[string]any) {
	_, ok := reward.SourceFunction(table.TextAt(row, DataSourceColumn))
	g.Sources = g.Sources && ok
	g.Truths = g.Truths && table.TextAt(row, GroundTruthColumn) != ""
}

// generation generates the replies to the prompts of a file.
type generation struct {
	host    *Host
	cfg     configs.Config
	in      string
	sampler *Sampler
}

func (g *generation) run(ctx context.Context, prompts [][]data.Message, done *rowFile[replies]) error {
	bar := g.host.Progress("generating", len(prompts))
	defer bar.Done()
	bar.Set(len(done.rows), "")
	bar.Live(func() string { return SampledNote(int(g.sampler.Scheduler.Stats().SampledTokens)) })
	starts, err := g.encode(prompts)
	if err != nil {
		return err
	}
	n := g.cfg.Rollout.Val.GroupSize
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(g.cfg.Rollout.MaxSequences)
	for _, i := range done.missing(len(prompts)) {
		r := replies{make([]string, n), make([]int64, n)}
		var left atomic.Int64
		left.Store(int64(n))
		for k := range n {
			group.Go(func() error {
				var err error
				if r.Texts[k], r.Tokens[k], err = g.reply(ctx, starts[i], i, k); err != nil {
					return fmt.Errorf("%s: row %d: %w", g.in, i, err)
				}
				if left.Add(-1) > 0 {
					return nil
				}
				finished, err := done.add(i, r)
				bar.Set(finished, "")
				return err
			})
		}
	}
	return group.Wait()
}

// encode renders the prompts. The error for long prompts lists their rows.
func (g *generation) encode(prompts [][]data.Message) ([][]int32, error) {
	starts := make([][]int32, len(prompts))
	var long []int
	longest := 0
	for i, messages := range prompts {
		ids, err := g.sampler.Renderer.Start(messages)
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: row %d: %w", g.in, i, err))
		}
		starts[i] = ids
		if len(ids) >= g.cfg.Rollout.MaxContextTokens {
			long, longest = append(long, i), max(longest, len(ids))
		}
	}
	if len(long) == 0 {
		return starts, nil
	}
	return nil, errext.With(errext.Input, fmt.Sprintf("remove these rows, or raise %s, at most to the number of positions of the model", g.host.name("rollout.max_context_tokens")),
		fmt.Errorf("%s: %d of %d prompts leave no room for a reply in %d tokens: rows %s; the longest has %d tokens",
			g.in, len(long), len(prompts), g.cfg.Rollout.MaxContextTokens, FormatIndices(long), longest))
}

// reply generates a reply. The random draws depend only on seed, row and sample, so
// that a resumed call generates the same replies.
func (g *generation) reply(ctx context.Context, ids []int32, row, sample int) (string, int64, error) {
	session, err := g.sampler.Scheduler.Open(ctx, engine.SessionOptions{
		Key: engine.Key{Seed: g.cfg.Trainer.Seed, Task: "row_" + strconv.Itoa(row), Sample: sample}, MaxContext: g.cfg.Rollout.MaxContextTokens,
	})
	if err != nil {
		return "", 0, err
	}
	defer g.sampler.Scheduler.Close(session)
	temperature, greedy := sampledAt(g.cfg)
	reply, err := g.sampler.Scheduler.Generate(ctx, session, ids, engine.Params{
		MaxNew: g.cfg.Rollout.MaxNewTokens, Temperature: float32(temperature), Greedy: greedy, TopP: float32(g.cfg.Rollout.TopP), TopK: max(g.cfg.Rollout.TopK, 0),
		StopTokens: g.sampler.Renderer.StopTokens(),
	})
	if err != nil {
		return "", 0, err
	}
	text := reply.IDs
	if reply.Stop == engine.StopEOS && len(text) > 0 {
		text = text[:len(text)-1] // the stop token is not part of the text
	}
	return g.sampler.Renderer.Decode(text), int64(len(reply.IDs)), nil
}
