package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

func logprobsCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:  "logprobs",
		Usage: "log-probs of the tokens of JSON lines on standard input",
		Description: `Reads lines {"ids":[…]} or {"text":"…"} and writes lines {"ids":[…],"logprobs":[…]}, where` + "\n" +
			"logprobs[i] = log p(ids[i+1] | ids[..i]) at temperature 1.",
		Flags: []cli.Flag{
			modelFlag(), deviceFlag(), dtypeFlag(),
			&cli.BoolFlag{Name: "decode", Usage: "compute one token at a time through the KV cache"},
		},
	}, 0, 0, modelLogprobs)
}

// scoreLine is a line of standard input: ids or text.
type scoreLine struct {
	IDs  []int32 `json:"ids"`
	Text *string `json:"text"`
}

// scored is a line of standard output: LogProbs[i] = log p(ids[i+1] | ids[..i])
// at temperature 1.
type scored struct {
	IDs      []int32   `json:"ids"`
	LogProbs []float32 `json:"logprobs"`
}

// maxScoreLine bounds the length in bytes of a line of input.
const maxScoreLine = 64 << 20

func modelLogprobs(ctx context.Context, s *State, c *cli.Context) (err error) {
	m := configs.Model{Path: c.String("model"), Device: c.String("device"), ComputeDtype: c.String("dtype")}
	f := flagFaults{}
	f.need("model", m.Path, "a Hugging Face folder or a .gguf file")
	f.device(m.Device)
	f.dtype(m.ComputeDtype)
	if err := f.err(); err != nil {
		return err
	}
	var open run.Closers
	defer func() { err = errors.Join(err, open.Close()) }()
	b, err := run.OpenModel(ctx, &s.Host, &open, m, model.Options{TokenizerOptional: true})
	if err != nil {
		return err
	}
	n := 0
	return s.eachLine(ctx, maxScoreLine, func(line []byte) error {
		n++
		if len(line) == 0 {
			return nil
		}
		ids, err := parseScoreLine(line, b)
		if err == nil {
			err = b.Model.Config.CheckIDs(ids)
		}
		if err != nil {
			return errext.With(errext.Input, `write {"ids":[…]} or {"text":"…"}`, fmt.Errorf("standard input, line %d: %w", n, err))
		}
		out, err := score(ctx, b.Model, ids, c.Bool("decode"))
		if err != nil {
			return errext.With(errext.Native, "", fmt.Errorf("standard input, line %d: %w", n, err))
		}
		if err := out.check(); err != nil {
			return errext.With(errext.Model, "the weights of the model may contain NaN or infinity: use another checkpoint",
				fmt.Errorf("model %s: standard input, line %d: %w", m.Path, n, err))
		}
		return s.printJSON(out)
	})
}

// eachLine calls f with every line of standard input until EOF, an error of f, or
// the end of ctx. A blocked read cannot be stopped: its goroutine ends with the
// process.
func (s *State) eachLine(ctx context.Context, longest int, f func(line []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := bufio.NewScanner(s.Stdin)
	in.Buffer(make([]byte, 1<<16), longest)
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for in.Scan() {
			select {
			case lines <- bytes.Clone(in.Bytes()):
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, more := <-lines:
			if !more {
				return cmp.Or(ctx.Err(), errext.With(errext.Input, "", in.Err()))
			}
			if err := f(line); err != nil {
				return err
			}
		}
	}
}

// check returns an error for NaN and infinity, which JSON cannot hold.
func (s scored) check() error {
	for i, x := range s.LogProbs {
		if x := float64(x); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("the log-prob of token %d is %v", i+1, x)
		}
	}
	return nil
}

func parseScoreLine(line []byte, b *model.Bundle) ([]int32, error) {
	var in scoreLine
	if err := json.Unmarshal(line, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Text != nil && in.IDs != nil:
		return nil, errors.New("both ids and text are given")
	case in.Text != nil && b.Tokenizer == nil:
		return nil, fmt.Errorf("the tokenizer of the model cannot be read (%w): give ids instead of text, or repair the tokenizer", b.TokenizerErr)
	case in.Text != nil:
		in.IDs = b.Tokenizer.Encode(*in.Text, tokenizer.Options{AddSpecial: true}) // special tokens are added, as in transformers
	case in.IDs == nil:
		return nil, errors.New("neither ids nor text is given")
	}
	if len(in.IDs) == 0 {
		return nil, errors.New("no tokens")
	}
	return in.IDs, nil
}

func score(ctx context.Context, m *model.Model, ids []int32, decode bool) (scored, error) {
	out := scored{IDs: ids, LogProbs: []float32{}}
	if len(ids) < 2 {
		return out, nil
	}
	if decode {
		logps, err := m.DecodeLogProbs(ctx, 1, ids, 1)
		out.LogProbs = logps
		return out, err
	}
	all, err := m.LogProbs(ctx, 1, ids)
	if err == nil {
		out.LogProbs = all[0]
	}
	return out, err
}
