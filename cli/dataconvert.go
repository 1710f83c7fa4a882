package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/llm/gguf"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/textwidth"
)

func dataConvertCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name: "convert", Usage: "write selected rows of files to another file", ArgsUsage: "IN... OUT",
		Description: dataFormats + "\nOUT is .parquet (the columns of OpenManus-RL), .jsonl or .json.",
		Flags: []cli.Flag{
			&cli.Float64Flag{Name: "min-reward", Usage: "keep only episodes of dumps with at least this reward"},
			&cli.BoolFlag{Name: "success", Usage: "keep only successful episodes of dumps"},
			dataEnvFlag("keep only rows of the environment `NAME`; rows without an environment belong to it"),
			&cli.StringSliceFlag{Name: "exclude", Usage: "skip the tasks of `FILE`"},
			&cli.IntFlag{Name: "max-tokens", Usage: "maximum tokens of a conversation, counted with --tokenizer; 0: no limit"},
			&cli.StringFlag{Name: "tokenizer", Usage: "`MODEL` whose tokenizer and chat template count tokens; default: the recorded tokens of a dump"},
			&cli.StringFlag{Name: "truncation", Value: learner.TruncateError, Usage: "treatment of longer conversations: error or drop"},
			&cli.BoolFlag{Name: "chat", Usage: "write JSON rows as {id, conversations: [{role, content}]} instead of AgentTraj's form"},
			&cli.BoolFlag{Name: "force", Usage: "replace OUT if it exists"},
			&cli.BoolFlag{Name: "json", Usage: "print the counts as one JSON object"},
		},
	}, 2, anyNumber, dataConvert)
}

func dataConvert(ctx context.Context, s *State, c *cli.Context) error {
	files := c.Args().Slice()
	out, force := files[len(files)-1], c.Bool("force")
	o := table.ConvertOptions{
		Env: c.String("env"), Success: c.Bool("success"), MaxTokens: c.Int("max-tokens"), DropOverlong: c.String("truncation") == learner.TruncateDrop,
	}
	if c.IsSet("min-reward") {
		reward := c.Float64("min-reward")
		o.MinReward = &reward
	}
	var f flagFaults
	layout, err := table.LayoutOf(out)
	if err != nil {
		f.errs = append(f.errs, err)
	} else if layout.Chat = c.Bool("chat"); layout.Chat && layout.Format == table.ParquetFile {
		f.add("chat", "parquet files have the columns of OpenManus-RL: remove the flag, or name OUT .jsonl or .json")
	}
	f.oneOf("truncation", c.String("truncation"), learner.TruncateError, learner.TruncateDrop)
	f.atLeast("max-tokens", o.MaxTokens, 0)
	if o.MaxTokens == 0 && (c.IsSet("tokenizer") || c.IsSet("truncation")) {
		f.add("max-tokens", "missing; --tokenizer and --truncation need it")
	}
	if err := f.err(); err != nil {
		return err
	}
	if err := s.CheckOutput(out, force); err != nil {
		return err
	}
	if o.Exclude, err = s.tasksOf(ctx, c.StringSlice("exclude"), o.Env); err != nil {
		return err
	}
	if path := c.String("tokenizer"); path != "" {
		if o.Tokens, err = s.tokenCounter(path); err != nil {
			return err
		}
	}
	var counts *table.ConvertCounts
	err = s.WriteWith(out, force, func(w io.Writer) error {
		counts, err = s.convert(ctx, files[:len(files)-1], table.NewRecordWriter(w, layout), o)
		return err
	})
	if err != nil {
		return err
	}
	return s.printResult(counts, convertText(out, counts), c.Bool("json"))
}

// convert writes the selected rows of files to w.
func (s *State) convert(ctx context.Context, files []string, w table.RecordWriter, o table.ConvertOptions) (*table.ConvertCounts, error) {
	for i, file := range files {
		files[i] = s.Path(file)
	}
	counts, err := table.Convert(ctx, files, w, o)
	switch {
	case errors.Is(err, table.ErrOverlong):
		return nil, errext.With(errext.Input, "raise --max-tokens, or add --truncation drop to skip such rows", err)
	case errors.Is(err, table.ErrNoReward):
		return nil, errext.With(errext.Input, "remove --min-reward and --success for this file", err)
	case errors.Is(err, table.ErrNoTokens):
		return nil, errext.With(errext.Input, "give --tokenizer MODEL", err)
	case err != nil:
		return nil, errext.WithDefault(errext.Input, err)
	case counts.Written == 0:
		return nil, errext.With(errext.Input, "loosen the filters", fmt.Errorf("no row passes the filters: %s", droppedText(counts)))
	}
	return counts, nil
}

// tasksOf returns the tasks of files. The argument env is the environment of rows that name no environment.
func (s *State) tasksOf(ctx context.Context, files []string, env string) (data.TaskSet, error) {
	all := data.TaskSet{}
	for _, file := range files {
		info, err := table.Inspect(ctx, s.Path(file), env)
		if err != nil {
			return nil, errext.With(errext.Input, "", err)
		}
		for env, indices := range info.Tasks {
			for index := range indices {
				all.Add(env, index)
			}
		}
	}
	return all, nil
}

func convertText(out string, c *table.ConvertCounts) string {
	var b strings.Builder
	tasks := 0
	for _, of := range c.Tasks {
		tasks += len(of)
	}
	fmt.Fprintf(&b, "%s: %d of %s, %s\n", out, c.Written, textwidth.Count(c.Read, "row"), textwidth.Count(tasks, "task"))
	if len(c.Dropped) > 0 {
		fmt.Fprintf(&b, "  left out: %s\n", droppedText(c))
	}
	if len(c.Others) > 0 {
		fmt.Fprintf(&b, "  columns left out: %s\n", strings.Join(c.Others, ", "))
	}
	for _, file := range c.Torn {
		fmt.Fprintf(&b, "  %s: the last line is incomplete and was skipped\n", file)
	}
	return b.String()
}

func droppedText(c *table.ConvertCounts) string {
	if len(c.Dropped) == 0 {
		return "the input has no rows"
	}
	var parts []string
	for _, why := range sortedKeys(c.Dropped) {
		parts = append(parts, fmt.Sprintf("%d %s", c.Dropped[why], why))
	}
	return strings.Join(parts, ", ")
}

// openTokenizer loads the tokenizer of a model without its weights.
func (s *State) openTokenizer(path string) (tok *tokenizer.Tokenizer, config tokenizer.Config, err error) {
	found, err := run.LookUpModel(&s.Host, path)
	if err != nil {
		return nil, config, fmt.Errorf("tokenizer of %s: %w", path, err)
	}
	from := found.Path
	if strings.HasSuffix(strings.ToLower(from), ".gguf") {
		var f *gguf.File
		if f, err = gguf.Open(from); err == nil {
			defer f.Close()
			tok, config, err = f.Metadata().Tokenizer()
		}
	} else if tok, err = tokenizer.Load(from); err == nil {
		config, err = tokenizer.LoadConfig(from)
	}
	if err != nil {
		return nil, config, errext.With(errext.Model, "", fmt.Errorf("tokenizer of %s: %w", path, err))
	}
	return tok, config, nil
}

// tokenCounter returns a function that counts the tokens of conversations as
// supervised training does.
func (s *State) tokenCounter(path string) (func([]data.Message) (int, error), error) {
	tok, config, err := s.openTokenizer(path)
	if err != nil {
		return nil, err
	}
	renderer, err := run.NewRenderer(&model.Bundle{Path: path, Tokenizer: tok, TokenizerConfig: config}, s.Now())
	if err != nil {
		return nil, err
	}
	return func(messages []data.Message) (int, error) {
		ids, _, err := renderer.Trajectory(messages)
		return len(ids), err
	}, nil
}
