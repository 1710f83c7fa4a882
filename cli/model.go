package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

func modelCommand(s *State) *cli.Command {
	return group(&cli.Command{
		Name:  "model",
		Usage: "describe and convert models, compute log-probs",
		Subcommands: []*cli.Command{
			leaf(s, &cli.Command{
				Name: "info", Usage: "describe a model", ArgsUsage: "PATH", Flags: infoFlags(),
			}, 1, modelInfo),
			leaf(s, &cli.Command{
				Name: "convert", Usage: "write a model as a Hugging Face folder", ArgsUsage: "SRC DST", Flags: convertFlags(),
				Description: "SRC is a Hugging Face folder or a .gguf file, DST a folder that must not exist. Adapters (a PEFT folder,\n" +
					"as a run with model.lora_rank saves) are merged into their base weights.",
			}, 2, modelConvert),
			leaf(s, &cli.Command{
				Name: "logprobs", Usage: "log-probs of the tokens of JSON lines on standard input", Flags: logprobsFlags(),
				Description: `Reads {"ids":[…]} or {"text":"…"} a line and writes {"ids":[…],"logprobs":[…]}, where` + "\n" +
					"logprobs[i] = log p(ids[i+1] | ids[..i]) at temperature 1.",
			}, 0, modelLogprobs),
		},
	})
}

// infoOptions holds the command line of `openmanus model info PATH`.
type infoOptions struct {
	Model string
	JSON  bool
}

func infoFlags() []cli.Flag { return []cli.Flag{modelFlag(), jsonFlag()} }

// parseInfo reads the flags of infoFlags and the argument.
func parseInfo(c *cli.Context) (infoOptions, error) {
	o := infoOptions{Model: c.String("model"), JSON: c.Bool("json")}
	if o.Model == "" {
		o.Model = c.Args().First()
	} else if c.NArg() > 0 {
		return o, usagef("both --model %s and %s are given: remove one of them", o.Model, c.Args().First())
	}
	if o.Model == "" {
		return o, usagef("model info needs a PATH: a Hugging Face folder or a .gguf file")
	}
	return o, nil
}

// modelFacts is the output of `model info --json`.
type modelFacts struct {
	Path        string         `json:"path"`
	Format      string         `json:"format"`
	ModelType   string         `json:"model_type"`
	Parameters  int            `json:"parameters"`
	WeightBytes int64          `json:"weight_bytes"`
	Tensors     map[string]int `json:"tensors"` // by type
	Layers      int            `json:"layers"`
	HiddenSize  int            `json:"hidden_size"`
	Heads       int            `json:"heads"`
	KVHeads     int            `json:"kv_heads"`
	VocabSize   int            `json:"vocab_size"`
	Tokens      int            `json:"tokenizer_tokens"`
	MaxPosition int            `json:"max_position_embeddings"`
	Tied        bool           `json:"tie_word_embeddings"`
	Template    bool           `json:"chat_template"`
	LoRARank    int            `json:"lora_rank,omitempty"`
	Base        string         `json:"base,omitempty"`   // base model of the adapters
	Labels      int            `json:"labels,omitempty"` // of a sequence classifier
}

func modelInfo(_ context.Context, s *State, c *cli.Context) error {
	o, err := parseInfo(c)
	if err != nil {
		return err
	}
	d, err := model.Describe(run.ModelPath(&s.Host, o.Model))
	if err != nil {
		return errext.With(errext.Model, "", err)
	}
	f := modelFacts{
		Path: o.Model, Format: d.Format, ModelType: d.Config.ModelType, Parameters: d.Parameters, WeightBytes: d.WeightBytes,
		Tensors: d.TensorTypes, Layers: d.Config.NumHiddenLayers, HiddenSize: d.Config.HiddenSize,
		Heads: d.Config.NumAttentionHeads, KVHeads: d.Config.NumKeyValueHeads, VocabSize: d.Config.VocabSize,
		Tokens: d.Tokens, MaxPosition: d.Config.MaxPositionEmbeddings, Tied: d.Config.TieWordEmbeddings,
		Template: d.ChatTemplate != "",
	}
	f.Labels = d.Config.Labels
	if d.Adapters != nil {
		f.LoRARank, f.Base = d.Adapters.Rank, d.Adapters.Base
	}
	return s.printResult(f, f.text(), o.JSON)
}

func (f modelFacts) text() string {
	var b strings.Builder
	line := func(name string, v any) { fmt.Fprintf(&b, "%-14s %v\n", name, v) }
	line("path", f.Path)
	line("format", f.Format)
	if f.LoRARank > 0 {
		line("adapters", fmt.Sprintf("of rank %d, on %s", f.LoRARank, f.Base))
	}
	line("family", f.ModelType)
	switch {
	case f.Labels == 1:
		line("head", "score of a reward model, for reward.model_path")
	case f.Labels > 1:
		line("head", fmt.Sprintf("%d labels; a classifier, which no command takes", f.Labels))
	}
	line("parameters", fmt.Sprintf("%d (%.1f MB on disk)", f.Parameters, float64(f.WeightBytes)/1e6))
	for _, t := range sortedKeys(f.Tensors) {
		line("tensors", fmt.Sprintf("%d %s", f.Tensors[t], t))
	}
	line("layers", f.Layers)
	line("hidden size", f.HiddenSize)
	line("heads", fmt.Sprintf("%d, %d for keys and values", f.Heads, f.KVHeads))
	line("vocabulary", fmt.Sprintf("%d, %d in the tokenizer", f.VocabSize, f.Tokens))
	line("positions", f.MaxPosition)
	line("tied", f.Tied)
	line("chat template", map[bool]string{true: "yes", false: "no"}[f.Template])
	return b.String()
}

// convertOptions holds the command line of `openmanus model convert SRC DST`.
type convertOptions struct {
	From, To string // To must not exist
	Dtype    string
}

func convertFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "dtype", Value: "float32", Usage: "number format of the output: float32 or bfloat16"}}
}

// parseConvert reads the flags of convertFlags and the two arguments.
func parseConvert(c *cli.Context) (convertOptions, error) {
	if c.NArg() != 2 {
		return convertOptions{}, usagef("model convert needs two paths: SRC (a Hugging Face folder or a .gguf file) and DST (a new folder)")
	}
	o := convertOptions{From: c.Args().Get(0), To: c.Args().Get(1), Dtype: c.String("dtype")}
	f := flagFaults{}
	f.oneOf("dtype", o.Dtype, "float32", "bfloat16")
	return o, f.err()
}

func modelConvert(ctx context.Context, s *State, c *cli.Context) (err error) {
	o, err := parseConvert(c)
	if err != nil {
		return err
	}
	if _, err := s.Stat(o.To); err == nil {
		return errext.With(errext.Usage, "choose a folder that does not exist", fmt.Errorf("%s exists", o.To))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return errext.With(errext.Disk, "", err)
	}
	var open run.Closers
	defer func() { err = errors.Join(err, open.Close()) }()
	b, err := run.OpenModel(ctx, &s.Host, &open, configs.Model{Path: o.From, Device: "cpu", ComputeDtype: o.Dtype}, model.Options{})
	if err != nil {
		return err
	}
	if err := s.MakeWhole(o.To, func(dir string) error { return b.Save(ctx, dir, b.Model.DType()) }); err != nil {
		return errext.With(errext.Disk, "nothing was written to "+o.To, err)
	}
	return s.print([]byte(o.To + "\n"))
}
