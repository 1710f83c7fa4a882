package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
)

func generateCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "generate",
		Usage:     "answer every prompt of a file, several times, and write the replies beside them",
		ArgsUsage: "IN OUT",
		Flags:     generateFlags(),
		Description: "Reads parquet, or JSON objects, and adds the columns responses and responses_tokens. OUT is .jsonl, or .parquet where IN is.\n" +
			"Rows that are done are kept in OUT.progress: the same command goes on after an interruption.",
	}, 2, runGenerate)
}

// generateOptions are the command line of `openmanus generate`: its files, and
// the configuration with the flags merged into it. rollout.val says how replies
// are sampled.
type generateOptions struct {
	configs.Config
	In, Out     string
	PromptKey   string
	ResponseKey string
	Force       bool
}

// samples is the number of replies to a prompt.
func (o *generateOptions) samples() int { return o.Rollout.Val.GroupSize }

// tokensKey is the column of the replies' lengths.
func tokensKey(responseKey string) string { return responseKey + "_tokens" }

const (
	promptKeyUsage   = "column of the prompt: text, or messages with role and content; a.b is b in a"
	responseKeyUsage = "column of the replies"
)

// generateKeys are the flags of generate that override keys.
func generateKeys() []keyFlag {
	return slices.Concat(modelKeys(), []keyFlag{
		{flag: &cli.IntFlag{Name: "samples", Value: 5, Usage: "replies to a prompt"}, keys: "rollout.val.group_size"},
		{flag: &cli.IntFlag{Name: "max-new-tokens", Value: 512, Usage: "tokens of one reply"}, keys: "rollout.max_new_tokens"},
		{flag: &cli.IntFlag{Name: "max-context-tokens", Usage: "tokens of prompt and reply; 0: the model's limit"}, keys: "rollout.max_context_tokens"},
	}, samplingKeys(), []keyFlag{
		{flag: &cli.IntFlag{Name: "concurrency", Value: 64, Usage: "replies generated at once"}, keys: "rollout.max_sequences"},
	})
}

func generateFlags() []cli.Flag {
	return slices.Concat(flagsOf(modelKeys()), []cli.Flag{
		&cli.StringFlag{Name: "prompt-key", Value: promptColumn, Usage: promptKeyUsage},
		&cli.StringFlag{Name: "response-key", Value: responseColumn, Usage: responseKeyUsage},
	}, flagsOf(generateKeys()[len(modelKeys()):]), []cli.Flag{
		&cli.BoolFlag{Name: "force", Usage: "replace OUT if it exists, and begin anew"},
	})
}

// parseGenerate reads the flags of generateFlags.
func parseGenerate(c *cli.Context) (generateOptions, error) {
	o := generateOptions{
		Config: schema.Defaults(),
		In:     c.Args().Get(0), Out: c.Args().Get(1),
		PromptKey: c.String("prompt-key"), ResponseKey: c.String("response-key"), Force: c.Bool("force"),
	}
	f := flagFaults{}
	if o.Out == "" {
		f.errs = append(f.errs, errors.New("generate needs a file to read and one to write: openmanus generate IN OUT"))
	}
	f.need("prompt-key", o.PromptKey, "the name of a column")
	f.need("response-key", o.ResponseKey, "the name of a column")
	f.override(c, generateKeys(), &o.Config, true)
	f.need("model", o.Model.Path, "a Hugging Face folder or a .gguf file")
	f.sampling(c)
	f.check(c, generateKeys(), &o.Config)
	return o, f.err()
}

// sampling is how replies are drawn, as a progress file records it.
type sampling struct {
	MaxNewTokens     int     `json:"max_new_tokens"`
	MaxContextTokens int     `json:"max_context_tokens"`
	Temperature      float64 `json:"temperature"`
	Greedy           bool    `json:"greedy"`
	TopP             float64 `json:"top_p"`
	TopK             int     `json:"top_k"`
	Seed             uint64  `json:"seed"`
}

func samplingOf(cfg configs.Config) sampling {
	r := cfg.Rollout
	temperature, greedy := sampledAt(cfg)
	return sampling{r.MaxNewTokens, r.MaxContextTokens, temperature, greedy, r.TopP, r.TopK, cfg.Trainer.Seed}
}

// generateWork is what decides the replies.
type generateWork struct {
	Command   string `json:"command"`
	Input     string `json:"input_sha256"`
	Weights   string `json:"weights"`
	Dtype     string `json:"dtype"`
	PromptKey string `json:"prompt_key"`
	Samples   int    `json:"samples"`
	sampling
}

// replies are what is kept for a row.
type replies struct {
	Texts  []string `json:"texts"`
	Tokens []int64  `json:"tokens"`
}

func runGenerate(ctx context.Context, s *State, c *cli.Context) (err error) {
	o, err := parseGenerate(c)
	if err != nil {
		return err
	}
	if err := s.freeOutput(o.In, o.Out, o.Force); err != nil {
		return err
	}
	in, err := s.readTable(ctx, o.In)
	if err != nil {
		return err
	}
	for _, err := range []error{in.CheckOutput(o.Out), in.Lacks(o.ResponseKey), in.Lacks(tokensKey(o.ResponseKey))} {
		if err != nil {
			return errext.With(errext.Input, "", err)
		}
	}
	prompts := make([][]data.Message, in.Len())
	next := scoreNext{sources: true, truths: true}
	for i := range prompts {
		row, err := in.Row(i)
		if err == nil {
			next.see(row)
			prompts[i], err = promptOf(row, o.PromptKey)
		}
		if err != nil {
			return errext.With(errext.Input, "", fmt.Errorf("%s: row %d: %w", o.In, i, err))
		}
	}
	done, err := s.generateRows(ctx, o, prompts)
	if err != nil {
		return err
	}
	texts, tokens := make([][]string, len(prompts)), make([][]int64, len(prompts))
	total := int64(0)
	for i := range prompts {
		var r replies
		if err := json.Unmarshal(done.done[i], &r); err != nil || len(r.Texts) != o.samples() || len(r.Tokens) != o.samples() {
			return errext.With(errext.Input, "--force begins anew", fmt.Errorf("%s: row %d is not what was written: %w", done.path, i, err))
		}
		texts[i], tokens[i] = r.Texts, r.Tokens
		for _, n := range r.Tokens {
			total += n
		}
	}
	if err := errors.Join(table.Add(in, o.ResponseKey, texts), table.Add(in, tokensKey(o.ResponseKey), tokens)); err != nil {
		return err
	}
	if err := s.writeTable(in, o.Out, o.Force); err != nil {
		return err
	}
	if err := done.finish(); err != nil {
		return err
	}
	return s.print(fmt.Appendf(nil, "%s: %d rows x %d replies, %d tokens\n%s", o.Out, len(prompts), o.samples(), total, next.text(o)))
}

// generateRows generates what the progress file does not have yet.
func (s *State) generateRows(ctx context.Context, o generateOptions, prompts [][]data.Message) (_ *rowFile, failed error) {
	hash, err := s.HashFile(o.In)
	if err != nil {
		return nil, err
	}
	var open run.Closers
	defer func() { failed = errors.Join(failed, open.Close()) }()
	b, err := run.OpenModel(ctx, &s.Host, &open, o.Model, model.Options{})
	if err != nil {
		return nil, err
	}
	if o.Rollout.MaxContextTokens, err = run.ContextLimit(b, o.Config); err != nil {
		return nil, err
	}
	weights, err := b.Model.Hash(ctx)
	if err != nil {
		return nil, errext.With(errext.Native, "", err)
	}
	done, err := s.openRowFile(o.Out, generateWork{"generate", hash, weights, o.Model.ComputeDtype, o.PromptKey, o.samples(), samplingOf(o.Config)}, o.Force)
	if err != nil {
		return nil, err
	}
	defer func() { failed = errors.Join(failed, done.close()) }()
	sampler, err := run.NewSampler(ctx, b, b.Model, run.SamplerOptions{
		Sequences: min(o.Rollout.MaxSequences, len(prompts)*o.samples()), MaxContext: o.Rollout.MaxContextTokens, MemoryShare: 0.5, Hints: run.CacheFlags,
		Day: s.Now(),
	})
	if err != nil {
		return nil, err
	}
	open.AddFunc(sampler.Close)
	return done, s.generateWith(ctx, o, sampler, prompts, done)
}

func (s *State) generateWith(ctx context.Context, o generateOptions, sampler *run.Sampler, prompts [][]data.Message, done *rowFile) error {
	bar := s.Progress("generating", len(prompts))
	defer bar.Done()
	before := maps.Clone(done.done) // which grows meanwhile
	finished := len(before)
	bar.Set(finished, "")
	starts, err := o.encode(sampler, prompts)
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards finished and left
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Rollout.MaxSequences)
	for i, ids := range starts {
		if _, ok := before[i]; ok {
			continue
		}
		r := replies{make([]string, o.samples()), make([]int64, o.samples())}
		left := o.samples()
		for k := range o.samples() {
			g.Go(func() error {
				var err error
				if r.Texts[k], r.Tokens[k], err = o.one(ctx, sampler, ids, i, k); err != nil {
					return fmt.Errorf("%s: row %d: %w", o.In, i, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if left--; left > 0 {
					return nil
				}
				finished++
				bar.Set(finished, "")
				return done.add(i, r)
			})
		}
	}
	return g.Wait()
}

// encode renders the prompts. Those that are too long are told all at once,
// before anything is generated.
func (o generateOptions) encode(sampler *run.Sampler, prompts [][]data.Message) ([][]int32, error) {
	const told = 20
	starts := make([][]int32, len(prompts))
	var long []string
	longest := 0
	for i, messages := range prompts {
		ids, err := sampler.Renderer.Start(messages)
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: row %d: %w", o.In, i, err))
		}
		starts[i] = ids
		if len(ids) >= o.Rollout.MaxContextTokens {
			long, longest = append(long, strconv.Itoa(i)), max(longest, len(ids))
		}
	}
	if len(long) == 0 {
		return starts, nil
	}
	rows := strings.Join(long[:min(told, len(long))], ", ")
	if len(long) > told {
		rows += ", …"
	}
	return nil, errext.With(errext.Input, "take them out, or raise --max-context-tokens as far as the model's positions go",
		fmt.Errorf("%s: %d of %d prompts leave no room for a reply in %d tokens (--max-context-tokens): rows %s; the longest has %d tokens",
			o.In, len(long), len(prompts), o.Rollout.MaxContextTokens, rows, longest))
}

// one generates a reply. Its draws are keyed by seed, row and sample: who
// resumes draws what would have been drawn.
func (o generateOptions) one(ctx context.Context, sampler *run.Sampler, ids []int32, row, sample int) (string, int64, error) {
	session, err := sampler.Scheduler.Open(ctx, engine.SessionOptions{
		Key: engine.Key{Seed: o.Trainer.Seed, Task: "row_" + strconv.Itoa(row), Sample: sample}, MaxContext: o.Rollout.MaxContextTokens,
	})
	if err != nil {
		return "", 0, err
	}
	defer sampler.Scheduler.Close(session)
	temperature, greedy := sampledAt(o.Config)
	reply, err := sampler.Scheduler.Generate(ctx, session, ids, engine.Params{
		MaxNew: o.Rollout.MaxNewTokens, Temperature: float32(temperature), Greedy: greedy, TopP: float32(o.Rollout.TopP), TopK: max(o.Rollout.TopK, 0),
		StopTokens: sampler.Renderer.StopTokens(),
	})
	if err != nil {
		return "", 0, err
	}
	said := reply.IDs
	if reply.Stop == engine.StopEOS && len(said) > 0 {
		said = said[:len(said)-1] // the stop token is not part of the text
	}
	return sampler.Renderer.Decode(said), int64(len(reply.IDs)), nil
}
