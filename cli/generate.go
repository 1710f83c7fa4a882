package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
)

func generateCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "generate",
		Usage:     "generate several replies to every prompt of a file, and write them as a new column",
		ArgsUsage: "IN OUT",
		Description: "Reads parquet, or JSON objects, and adds the columns responses and responses_tokens. OUT is .jsonl, or .parquet if IN is.\n" +
			"Finished rows are kept in OUT.progress, from which the same command resumes after an interruption.",
		Flags: slices.Concat(flagsOf(modelKeys()), []cli.Flag{
			&cli.StringFlag{Name: "prompt-key", Value: run.PromptColumn, Usage: promptKeyUsage},
			&cli.StringFlag{Name: "response-key", Value: run.ResponseColumn, Usage: responseKeyUsage},
		}, flagsOf(generateKeys()[len(modelKeys()):]), []cli.Flag{
			&cli.BoolFlag{Name: "force", Usage: "replace OUT if it exists, and start over"},
		}),
	}, 2, 2, runGenerate)
}

const (
	promptKeyUsage   = "column of the prompt: text, or messages with role and content; a.b is the field b of column a"
	responseKeyUsage = "column of the replies"
)

// generateKeys are the flags of generate that override keys.
func generateKeys() []keyFlag {
	return slices.Concat(modelKeys(), []keyFlag{
		{flag: &cli.IntFlag{Name: "samples", Value: 5, Usage: "replies to a prompt"}, keys: "rollout.val.group_size"},
		{flag: &cli.IntFlag{Name: "max-new-tokens", Value: 512, Usage: "tokens of one reply"}, keys: "rollout.max_new_tokens"},
		{flag: &cli.IntFlag{Name: "max-context-tokens", Usage: "maximum tokens of prompt and reply together; 0: the model's limit"}, keys: "rollout.max_context_tokens"},
	}, samplingKeys(), []keyFlag{
		{flag: &cli.IntFlag{Name: "concurrency", Value: 64, Usage: "replies generated at once"}, keys: "rollout.max_sequences"},
	})
}

func runGenerate(ctx context.Context, s *State, c *cli.Context) error {
	cfg := schema.Defaults()
	o := run.GenerateOptions{
		In: c.Args().Get(0), Out: c.Args().Get(1), PromptKey: c.String("prompt-key"), ResponseKey: c.String("response-key"), Force: c.Bool("force"),
	}
	f := flagFaults{}
	f.need("prompt-key", o.PromptKey, "the name of a column")
	f.need("response-key", o.ResponseKey, "the name of a column")
	f.override(c, generateKeys(), &cfg, true)
	f.need("model", cfg.Model.Path, "a Hugging Face folder or a .gguf file")
	f.sampling(c)
	f.check(c, generateKeys(), &cfg)
	if err := f.err(); err != nil {
		return err
	}
	r, err := s.openRun(ctx, cfg, generateKeys())
	if err != nil {
		return err
	}
	result, err := r.Generate(ctx, o)
	if err != nil {
		return err
	}
	return s.print(fmt.Appendf(nil, "%s: %d rows x %d replies, %d tokens\n%s", o.Out, result.Rows, result.Samples, result.Tokens, scoreAgain(o, result)))
}

// scoreAgain returns the command that scores the output of generate. If the rows
// have no data source, the command has a placeholder for the score function.
func scoreAgain(o run.GenerateOptions, r run.GenerateResult) string {
	command := "Next: openmanus score " + errext.ShellQuote(o.Out)
	if o.PromptKey != run.PromptColumn {
		command += " --prompt-key " + errext.ShellQuote(o.PromptKey)
	}
	if o.ResponseKey != run.ResponseColumn {
		command += " --response-key " + errext.ShellQuote(o.ResponseKey)
	}
	command += " --score-fn "
	const choose = "FUNCTION\nFUNCTION is a score function that openmanus score --help lists"
	switch {
	case r.Sources && r.Truths:
		return command + "data_source\n"
	case r.Truths:
		return command + choose + ": not every row has a data_source that selects one.\n"
	}
	return command + choose + " and that needs no ground truth: not every row has one in " + run.GroundTruthColumn + ".\n"
}
