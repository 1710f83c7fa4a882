package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/internal/errext"
)

// taskOptions are what rollout and eval share: which model plays which tasks
// of which environment, and how.
type taskOptions struct {
	Model      string // folder or .gguf file
	Device     string
	Dtype      string
	Endpoint   *endpointOptions // nil: Model plays
	Env        string
	Servers    []string       // empty: the built-in server is started
	Launch     *launchOptions // nil: no server of the user's is started
	Recipes    string         // of the built-in textcraft
	Vocabulary string         // of the built-in wordle
	Tasks      string         // indices, ranges and files, for data.ParseTaskSpec
	Skip       string         // indices and ranges; "": none

	Samples          int
	MaxTurns         int // 0: what AgentGym's own evaluation allows
	MaxNewTokens     int
	MaxContextTokens int // 0: the model's own limit
	MaxObsTokens     int // 0: all
	MaxParseFailures int // 0: never the end of an episode
	Temperature      float64
	Greedy           bool
	TopP             float64
	TopK             int
	Seed             uint64
	Concurrency      int
	Deterministic    bool
	Format           string
	Parser           string
	ActionFormat     string
	HistoryLength    int
	MemoryFile       string
	Summary          *configs.Summary // of the format history; nil: none
	FinalEnds        bool
	TimeoutS         float64
	WaitHealthyS     float64
	Instruction      string
	InstructionFile  string
	Day              string // of the prompts, where the template writes it; "": today
	Unflagged        unflagged
}

// list is what the flags ask to play.
func (o taskOptions) list() taskList {
	l := taskList{Key: "--tasks", Entries: []string{o.Tasks}, SkipKey: "--skip-tasks"}
	if o.Skip != "" {
		l.Skip = []string{o.Skip}
	}
	return l
}

const taskForms = "indices such as 0-9,17, or a .parquet, .jsonl or .json file"

func deviceFlag() cli.Flag {
	return &cli.StringFlag{Name: "device", Value: "auto", Usage: "auto, cpu, cuda or cuda:N; never a silent fall-back"}
}

func dtypeFlag() cli.Flag {
	return &cli.StringFlag{Name: "dtype", Value: "float32", Usage: "number format of the computation: float32 or bfloat16"}
}

func modelFlag() cli.Flag {
	return &cli.StringFlag{Name: "model", Usage: "Hugging Face folder or .gguf file"}
}

// taskFlags returns the flags behind taskOptions.
func taskFlags() []cli.Flag {
	return slices.Concat(configuredFlags(), []cli.Flag{
		modelFlag(),
		deviceFlag(),
		dtypeFlag(),
	}, endpointFlags(), []cli.Flag{
		&cli.StringFlag{Name: "env", Usage: "environment: " + strings.Join(env.Names(), ", ")},
		&cli.StringSliceFlag{Name: "server", Usage: "`URL`[,URL...] of running servers; without, the built-in server is started"},
		&cli.StringFlag{Name: "recipes", Usage: "`DIR` of Minecraft recipe files for the built-in textcraft"},
		&cli.StringFlag{Name: "vocabulary", Usage: "`FILE` of five-letter words for the built-in wordle"},
		&cli.StringFlag{Name: "tasks", Usage: taskForms},
		&cli.StringFlag{Name: "skip-tasks", Usage: "indices left out wherever --tasks has them, such as 25 or 3-5,25"},
		&cli.IntFlag{Name: "samples", Value: 1, Usage: "episodes per task"},
		&cli.IntFlag{Name: "max-turns", Usage: "turns an episode may take; 0: the environment's usual limit"},
		&cli.IntFlag{Name: "max-new-tokens", Value: 512, Usage: "tokens of one reply"},
		&cli.IntFlag{Name: "max-context-tokens", Usage: "tokens of a whole episode; 0: the model's limit"},
		&cli.IntFlag{Name: "max-obs-tokens", Usage: "tokens of an observation that the model sees; 0: all"},
		&cli.IntFlag{Name: "max-parse-failures", Usage: "unreadable replies in a row that end an episode; 0: never"},
		&cli.Float64Flag{Name: "temperature", Value: 1, Usage: "divides the logits"},
		&cli.BoolFlag{Name: "greedy", Usage: "take the likeliest token instead of sampling"},
		&cli.Float64Flag{Name: "top-p", Value: 1, Usage: "share of probability kept when sampling"},
		&cli.IntFlag{Name: "top-k", Value: -1, Usage: "tokens kept when sampling; -1 or 0: all"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of every draw"},
		&cli.IntFlag{Name: "concurrency", Value: 64, Usage: "episodes played at once"},
		&cli.BoolFlag{Name: "deterministic", Usage: "form batches in a fixed order"},
		&cli.StringFlag{Name: "format", Value: "react", Usage: "how the model writes actions, and what it is shown (--action-format changes react's): " + strings.Join(configs.Formats(), ", ")},
		&cli.IntFlag{Name: "history-length", Value: 2, Usage: "past turns in a prompt of the formats history and staged"},
		&cli.StringFlag{Name: "memory-file", Usage: "`FILE` that the format staged reads at the start and writes what it stores to"},
	}, summaryFlags(), []cli.Flag{
		&cli.BoolFlag{Name: "final-ends", Usage: "a reply that the format takes for an answer ends the episode even if the server goes on"},
		&cli.StringFlag{Name: "parser", Value: "g2", Usage: "generation of AgentGym's action parser: g1 or g2"},
		&cli.StringFlag{Name: "action-format", Value: "react", Usage: "what AgentGym's client of alfworld, sciworld or webshop reads: react, function_calling or code_as_action"},
		&cli.Float64Flag{Name: "timeout", Value: 300, Usage: "seconds one request to a server may take"},
		&cli.Float64Flag{Name: "wait-healthy", Value: 120, Usage: "seconds that servers which are all down are waited for; at the start one has to answer at once"},
		&cli.StringFlag{Name: "instruction", Usage: "text that replaces the environment's instruction"},
		&cli.StringFlag{Name: "instruction-file", Usage: "text file that replaces the environment's instruction"},
		&cli.BoolFlag{Name: "launch", Usage: "start servers, as the flags from here on say, and end them"},
	}, launchFlags())
}

// format says in which format is played.
func (o taskOptions) format() formatOptions {
	return formatOptions{Name: o.Format, HistoryLength: o.HistoryLength, MemoryFile: o.MemoryFile, Summary: o.Summary}
}

// parseTasks reads the flags of taskFlags and returns every fault at once.
func parseTasks(c *cli.Context) (taskOptions, error) {
	o := taskOptions{
		Model:            c.String("model"),
		Device:           c.String("device"),
		Dtype:            c.String("dtype"),
		Env:              c.String("env"),
		Recipes:          c.String("recipes"),
		Vocabulary:       c.String("vocabulary"),
		Tasks:            c.String("tasks"),
		Skip:             c.String("skip-tasks"),
		Samples:          c.Int("samples"),
		MaxTurns:         c.Int("max-turns"),
		MaxNewTokens:     c.Int("max-new-tokens"),
		MaxContextTokens: c.Int("max-context-tokens"),
		MaxObsTokens:     c.Int("max-obs-tokens"),
		MaxParseFailures: c.Int("max-parse-failures"),
		Temperature:      c.Float64("temperature"),
		Greedy:           c.Bool("greedy"),
		TopP:             c.Float64("top-p"),
		TopK:             c.Int("top-k"),
		Seed:             c.Uint64("seed"),
		Concurrency:      c.Int("concurrency"),
		Deterministic:    c.Bool("deterministic"),
		Format:           c.String("format"),
		Parser:           c.String("parser"),
		ActionFormat:     c.String("action-format"),
		HistoryLength:    c.Int("history-length"),
		MemoryFile:       c.String("memory-file"),
		FinalEnds:        c.Bool("final-ends"),
		TimeoutS:         c.Float64("timeout"),
		WaitHealthyS:     c.Float64("wait-healthy"),
		Instruction:      c.String("instruction"),
		InstructionFile:  c.String("instruction-file"),
	}
	f := flagFaults{}
	if o.Endpoint = parseEndpoint(c, &f); o.Endpoint == nil {
		f.need("model", o.Model, "a Hugging Face folder or a .gguf file; or --base-url and --api-model for an endpoint")
	}
	f.device(o.Device)
	f.oneOf("dtype", o.Dtype, "float32", "bfloat16")
	if f.need("env", o.Env, strings.Join(env.Names(), ", ")) {
		f.oneOf("env", o.Env, env.Names()...)
	}
	for _, list := range c.StringSlice("server") {
		for url := range strings.SplitSeq(list, ",") {
			if msg := configs.ServerURL(url); msg != "" {
				f.add("server", "%s", msg)
			}
			o.Servers = append(o.Servers, url)
		}
	}
	if o.Launch = parseOptionalLaunch(c, &f); o.Launch != nil && len(o.Servers) > 0 {
		f.add("server", "--launch starts servers of its own: take out one of the two")
	}
	if o.Recipes != "" && (o.Env != "textcraft" || len(o.Servers) > 0 || o.Launch != nil) {
		f.add("recipes", "only the built-in textcraft server reads recipes: take it out")
	}
	if o.Vocabulary != "" && (o.Env != "wordle" || len(o.Servers) > 0 || o.Launch != nil) {
		f.add("vocabulary", "only the built-in wordle server reads a vocabulary: take it out")
	}
	if f.need("tasks", o.Tasks, taskForms) {
		if msg := configs.TaskSpec(o.Tasks); msg != "" {
			f.add("tasks", "%s", msg)
		}
	}
	if o.Skip != "" {
		if _, err := configs.ParseIndices(o.Skip); err != nil {
			f.add("skip-tasks", "%v", err)
		}
	}
	f.atLeast("samples", o.Samples, 1)
	f.atLeast("max-turns", o.MaxTurns, 0)
	f.atLeast("max-new-tokens", o.MaxNewTokens, 1)
	f.atLeast("max-context-tokens", o.MaxContextTokens, 0)
	f.atLeast("max-obs-tokens", o.MaxObsTokens, 0)
	f.atLeast("max-parse-failures", o.MaxParseFailures, 0)
	f.atLeast("top-k", o.TopK, -1)
	f.atLeast("concurrency", o.Concurrency, 1)
	f.oneOf("format", o.Format, configs.Formats()...)
	f.atLeast("history-length", o.HistoryLength, 0)
	if c.IsSet("history-length") && !configs.WritesPrompts(o.Format) {
		f.add("history-length", "format %s has no window: take it out", o.Format)
	}
	if o.MemoryFile != "" && o.Format != env.FormatStaged {
		f.add("memory-file", "format %s has no memory: take it out", o.Format)
	}
	if o.MemoryFile != "" && o.Deterministic {
		f.add("memory-file", "what an episode remembers then depends on the runs before: take out --deterministic")
	}
	f.oneOf("parser", o.Parser, "g1", "g2")
	f.oneOf("action-format", o.ActionFormat, "react", env.FormatFunctionCalling, env.FormatCodeAsAction)
	if action.Format(o.ActionFormat).Calls() { // then it is the format of the replies too
		if c.IsSet("format") {
			f.add("format", "%q does not go with --action-format %s: take it out", o.Format, o.ActionFormat)
		}
		o.Format = o.ActionFormat
	}
	o.Summary = parseSummary(c, &f, o.Format, o.Deterministic)
	// Written so that NaN fails too.
	if !(o.Temperature > 0 && o.Temperature <= 100) {
		f.add("temperature", "%v is not allowed; allowed: above 0, at most 100 (--greedy takes the likeliest token)", o.Temperature)
	}
	if !(o.TopP > 0 && o.TopP <= 1) {
		f.add("top-p", "%v is not allowed; allowed: above 0, at most 1", o.TopP)
	}
	if !(o.TimeoutS > 0 && o.TimeoutS <= 86400) {
		f.add("timeout", "%v is not allowed; allowed: above 0, at most 86400 seconds", o.TimeoutS)
	}
	if !(o.WaitHealthyS > 0 && o.WaitHealthyS <= 86400) {
		f.add("wait-healthy", "%v is not allowed; allowed: above 0, at most 86400 seconds", o.WaitHealthyS)
	}
	if o.Instruction != "" && o.InstructionFile != "" {
		f.add("instruction", "--instruction-file is given as well: take out one of the two")
	}
	if o.Greedy && c.IsSet("temperature") {
		f.add("greedy", "--temperature is given as well: take out one of the two")
	}
	return o, f.err()
}

// flagFaults collects what is wrong with a command line, so that it can all be
// said at once.
type flagFaults struct{ errs []error }

func (f *flagFaults) add(flag, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
}

func (f *flagFaults) need(flag, value, what string) bool {
	if value == "" {
		f.add(flag, "missing; give %s", what)
	}
	return value != ""
}

func (f *flagFaults) oneOf(flag, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		f.add(flag, "%q is not allowed; allowed: %s", value, strings.Join(allowed, ", "))
	}
}

func (f *flagFaults) atLeast(flag string, value, lo int) {
	if value < lo {
		f.add(flag, "%d is not allowed; allowed: at least %d", value, lo)
	}
}

func (f *flagFaults) device(value string) {
	if msg := configs.DeviceName(value); msg != "" {
		f.add("device", "%s", msg)
	}
}

func (f *flagFaults) err() error {
	if len(f.errs) == 0 {
		return nil
	}
	return errext.With(errext.Usage, "", errors.Join(f.errs...))
}
