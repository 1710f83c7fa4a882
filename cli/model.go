package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/llm/gguf"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

func modelCommand(s *State) *cli.Command {
	return group("model", "fetch, describe and convert models, compute log-probs",
		leaf(s, &cli.Command{
			Name: "info", Usage: "describe a model", ArgsUsage: "RUN|MODEL", Flags: []cli.Flag{modelFlag(), jsonFlag()},
		}, 0, 1, modelInfo),
		leaf(s, &cli.Command{
			Name: "convert", Usage: "write a model as a Hugging Face folder or as a GGUF file", ArgsUsage: "SRC DST",
			Description: "SRC is a Hugging Face folder or a .gguf file, DST a folder or, with --to gguf, a file that must not exist.\n" +
				"Adapters (a PEFT folder, as a run with model.lora_rank saves) are merged into their base weights.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "to", Value: toFolder, Usage: "format of the output: " + toFolder + ", a Hugging Face folder, or " + toGGUF + ", a file for llama.cpp and programs built on it"},
				&cli.StringFlag{Name: "dtype", Value: "float32", Usage: "number format of a Hugging Face folder: float32 or bfloat16"},
				&cli.StringFlag{Name: "type", Value: "f32", Usage: "number format of the matrices in a GGUF file: f32, bf16 or q8_0 (8 bits, with one scale per 32 numbers)"},
			},
		}, 2, 2, modelConvert),
		modelFetchCommand(s),
		logprobsCommand(s),
	)
}

// modelFacts is the output of `model info --json`.
type modelFacts struct {
	Path        string         `json:"path"`
	Format      string         `json:"format"`
	ModelType   string         `json:"model_type"`
	Parameters  int            `json:"parameters"`
	WeightBytes int64          `json:"weight_bytes"`
	Tensors     map[string]int `json:"tensors"` // number of tensors by type
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
	Labels      int            `json:"labels,omitempty"` // number of labels of a sequence classifier
}

func modelInfo(ctx context.Context, s *State, c *cli.Context) error {
	path := cmp.Or(c.String("model"), c.Args().First())
	switch {
	case path == "":
		return usagef("model info needs a MODEL: a Hugging Face folder, a .gguf file, a run or a model of the hub")
	case c.IsSet("model") && c.NArg() > 0:
		return usagef("both --model %s and %s are given: remove one of them", path, c.Args().First())
	}
	d, err := run.DescribeModel(ctx, &s.Host, path)
	if err != nil {
		return err
	}
	f := modelFacts{
		Path: path, Format: d.Format, ModelType: d.Config.ModelType, Parameters: d.Parameters, WeightBytes: d.WeightBytes,
		Tensors: d.TensorTypes, Layers: d.Config.NumHiddenLayers, HiddenSize: d.Config.HiddenSize,
		Heads: d.Config.NumAttentionHeads, KVHeads: d.Config.NumKeyValueHeads, VocabSize: d.Config.VocabSize,
		Tokens: d.Tokens, MaxPosition: d.Config.MaxPositionEmbeddings, Tied: d.Config.TieWordEmbeddings,
		Template: d.ChatTemplate != "", Labels: d.Config.Labels,
	}
	if d.Adapters != nil {
		f.LoRARank, f.Base = d.Adapters.Rank, d.Adapters.Base
	}
	return s.printResult(f, f.text(), c.Bool("json"))
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
		line("head", fmt.Sprintf("%d labels; no command supports such a classifier", f.Labels))
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

// The values of --to.
const (
	toFolder = "hf"
	toGGUF   = "gguf"
)

// ggufTypes holds the values of --type.
var ggufTypes = map[string]gguf.Type{"f32": gguf.F32, "bf16": gguf.BF16, "q8_0": gguf.Q8_0}

func modelConvert(ctx context.Context, s *State, c *cli.Context) (err error) {
	from, to, dtype, format := c.Args().Get(0), c.Args().Get(1), c.String("dtype"), c.String("to")
	f := flagFaults{}
	f.dtype(dtype)
	f.oneOf("to", format, toFolder, toGGUF)
	f.oneOf("type", c.String("type"), sortedKeys(ggufTypes)...)
	switch {
	case format == toGGUF && c.IsSet("dtype"):
		f.add("dtype", "only for --to %s; --type selects the number format of a GGUF file", toFolder)
	case format == toFolder && c.IsSet("type"):
		f.add("type", "only for --to %s; --dtype selects the number format of a Hugging Face folder", toGGUF)
	case format == toFolder && !c.IsSet("to") && strings.HasSuffix(to, ".gguf"):
		f.add("to", "missing; %s has the name of a GGUF file: give --to %s, or --to %s for a folder of this name", to, toGGUF, toFolder)
	}
	if err := f.err(); err != nil {
		return err
	}
	if _, err := s.Stat(to); err == nil {
		return errext.With(errext.Usage, "choose a name that does not exist", fmt.Errorf("%s exists", to))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return errext.With(errext.Disk, "", err)
	}
	if format == toGGUF {
		d, err := run.DescribeModel(ctx, &s.Host, from)
		if err != nil {
			return err
		}
		if d.Config.DType == "bfloat16" {
			dtype = d.Config.DType // exact, and half the memory of float32
		}
	}
	var open run.Closers
	defer func() { err = errors.Join(err, open.Close()) }()
	b, err := run.OpenModel(ctx, &s.Host, &open, configs.Model{Path: from, Device: "cpu", ComputeDtype: dtype}, model.Options{})
	if err != nil {
		return err
	}
	if format == toGGUF {
		err = s.writeGGUF(ctx, b, to, ggufTypes[c.String("type")])
	} else if err = s.MakeWhole(to, func(dir string) error { return b.Save(ctx, dir, b.Model.DType()) }); err != nil {
		err = errext.With(errext.Disk, "nothing was written to "+to, err)
	}
	if err != nil {
		return err
	}
	return s.print([]byte(to + "\n"))
}

// writeGGUF writes a model as a GGUF file and shows the progress.
func (s *State) writeGGUF(ctx context.Context, b *model.Bundle, to string, t gguf.Type) error {
	name := strings.TrimSuffix(filepath.Base(to), ".gguf")
	bar := s.Progress("write "+filepath.Base(to), len(b.Model.Params()))
	defer bar.Done()
	return s.WriteWith(to, false, func(w io.Writer) error {
		err := b.WriteGGUF(ctx, w, model.GGUFOptions{Type: t, Name: name, Progress: func(n int) { bar.Set(n, "tensors") }})
		return errext.With(errext.Model, "nothing was written to "+to, err)
	})
}
