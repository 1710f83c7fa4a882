package cli

import (
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
)

// evalAgain are the words with which `openmanus eval` plays an environment of a
// run the way the run validates: its validation tasks, or else its training
// tasks. config is the file in the run's folder.
func evalAgain(config, actor string, cfg configs.Config, e configs.Env) []string {
	words := []string{"--model", quoted(actor)}
	if len(cfg.Env) > 1 {
		words = append(words, "--env", e.Called())
	}
	if len(e.ValTasks) == 0 {
		words = append(words, "--split", "train")
	}
	return append(words, quoted(config))
}

// flagValue is a flag that a configuration stands for.
type flagValue struct{ name, value string }

// switchedOn is the value of a flag that takes none.
const switchedOn = "true"

// playedAs are the flags of eval and rollout, but for who plays, with which
// tasks of an environment are played the way a run validates. Those that would
// repeat a default are left out.
func playedAs(cfg configs.Config, e configs.Env, tasks []string) []flagValue {
	flags := []flagValue{{"env", e.Name}}
	add := func(name, value, unless string) {
		if value != unless {
			flags = append(flags, flagValue{name, value})
		}
	}
	add("tasks", strings.Join(tasks, ","), "")
	add("skip-tasks", strings.Join(e.SkipTasks, ","), "")
	add("server", strings.Join(e.Servers, ","), "")
	add("recipes", e.Recipes, "")
	add("vocabulary", e.Vocabulary, "")
	add("samples", strconv.Itoa(cfg.Rollout.Val.GroupSize), "1")
	add("max-turns", strconv.Itoa(e.MaxTurns), "0")
	add("max-new-tokens", strconv.Itoa(cfg.Rollout.MaxNewTokens), "512")
	add("max-context-tokens", strconv.Itoa(cfg.Rollout.MaxContextTokens), "0")
	add("max-obs-tokens", strconv.Itoa(cfg.Agent.MaxObsTokens), "0")
	add("max-parse-failures", strconv.Itoa(cfg.Agent.MaxParseFailures), "0")
	if t := cfg.Rollout.Val.Temperature; t == 0 {
		add("greedy", switchedOn, "")
	} else {
		add("temperature", number(t), "1")
	}
	if cfg.Rollout.Engine == "local" {
		add("dtype", cfg.Model.ComputeDtype, "float32")
	}
	if action.Format(e.ActionFormat).Calls() {
		add("action-format", e.ActionFormat, "")
	} else {
		add("format", e.Format, env.FormatReact)
	}
	if configs.WritesPrompts(e.Format) {
		add("history-length", strconv.Itoa(e.HistoryLength), "2")
		add("memory-file", e.MemoryFile, "")
	}
	if e.FinalEnds {
		add("final-ends", switchedOn, "")
	}
	add("parser", e.Parser, "g2")
	add("timeout", number(e.TimeoutS), "300")
	add("instruction", e.Instruction, "")
	add("instruction-file", e.InstructionFile, "")
	return flags
}

// number writes x as people do.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
