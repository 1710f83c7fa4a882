package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
)

// contract gathers everything that can change the number of an evaluation but
// the model's weights and the seed, which are what is compared. docs/eval.md
// explains the parts.
func (s *State) contract(ctx context.Context, p *playing, o playOptions) (eval.Contract, error) {
	v, err := runningVersion()
	if err != nil {
		return eval.Contract{}, err
	}
	e := o.env()
	parts := map[string]string{
		"program":       v.program(),
		"env":           e.Name,
		"server":        "built-in",
		"tasks":         tasksPart(p.tasks),
		"samples":       strconv.Itoa(o.samples()),
		"format":        e.Format,
		"parser":        e.Parser,
		"action_format": e.ActionFormat,
		"instruction":   instructionPart(p.tasks, p.env.Setup),
	}
	if err := s.addFormat(ctx, parts, p.env.Setup, o); err != nil {
		return eval.Contract{}, err
	}
	if p.world.Server == nil {
		if parts["server"], err = p.world.Pool.Version(ctx); err != nil {
			return eval.Contract{}, errext.With(run.CodeOf(ctx, err), "see to that server, or take it out: the contract says which servers played", err)
		}
	}
	if err := s.addWorldFiles(parts, *e); err != nil {
		return eval.Contract{}, err
	}
	options := p.env.Setup.Options
	if !o.local() {
		options.MaxContext = o.Rollout.MaxContextTokens // the engine's own is in bytes
	}
	if err := addOptions(parts, options); err != nil {
		return eval.Contract{}, err
	}
	if p.bundle == nil {
		parts["engine"], parts["chat_template"] = engineOpenAI, "the endpoint's own"
		return eval.NewContract(parts), nil
	}
	template := p.bundle.ChatTemplate()
	vars, err := json.Marshal(p.bundle.TokenizerConfig.TemplateVars())
	if err != nil {
		return eval.Contract{}, fmt.Errorf("variables of the chat template: %w", err)
	}
	parts["engine"], parts["dtype"] = engineLocal, o.Model.ComputeDtype
	parts["chat_template"] = textPart(template + "\x00" + string(vars))
	if run.WritesDate(template) {
		parts["date"] = p.day.Format(time.DateOnly)
	}
	return eval.NewContract(parts), nil
}

// textPart stands for a text of any length.
func textPart(text string) string {
	return fmt.Sprintf("%s (%d bytes)", eval.Digest([]byte(text)), len(text))
}

// tasksPart stands for the list of tasks, in its order.
func tasksPart(tasks []data.Task) string {
	var b strings.Builder
	for _, t := range tasks {
		fmt.Fprintf(&b, "%q %d\n", t.ID, t.Index)
	}
	return fmt.Sprintf("%s (%d tasks, %s to %s)", eval.Digest([]byte(b.String())), len(tasks), tasks[0].ID, tasks[len(tasks)-1].ID)
}

// instructionPart stands for what the model is told about every task. A task
// may bring wording of its own.
func instructionPart(tasks []data.Task, setup agent.Setup) string {
	var b strings.Builder
	for _, t := range tasks {
		fmt.Fprintf(&b, "%q\n", agent.Instruction(t, setup.Spec, setup.Format, setup.Options.Instruction))
	}
	fmt.Fprintf(&b, "%q", setup.Format.Prompt())
	return textPart(b.String())
}

// addFormat adds the options of formats that have some, and the words of those
// that write their prompts themselves.
func (s *State) addFormat(ctx context.Context, parts map[string]string, setup agent.Setup, o playOptions) error {
	e := o.env()
	if e.MemoryFile != "" {
		b, err := s.ReadFile(e.MemoryFile, maxMemory)
		if err != nil {
			return errext.With(errext.Input, "", err)
		}
		parts["memory_file"] = textPart(string(b))
	}
	format, ok := setup.Format.(agent.Prompting)
	if !ok {
		return nil
	}
	parts["history_length"] = strconv.Itoa(e.HistoryLength)
	var words strings.Builder
	turns := 3
	if e.UseSummary {
		summary := o.Agent.Summary
		parts["summary_model"] = summary.Model
		parts["summary_max_tokens"] = strconv.Itoa(summary.MaxTokens)
		parts["summary_temperature"] = strconv.FormatFloat(summary.Temperature, 'g', -1, 64)
		turns = 4 // the words that ask for the second summary differ from those for the first
		asked, err := agent.FormatFor(e.Format, setup.Spec, agent.FormatOptions{HistoryLength: e.HistoryLength, Summarizer: listener{&words}})
		if err != nil {
			return fmt.Errorf("prompts of summaries: %w", err)
		}
		format = asked.(agent.Prompting) // as the format itself is
	}
	prompter := format.Begin(data.Task{}, 0)
	seen := agent.PromptState{Observation: "observation"}
	for range turns {
		text, err := prompter.Prompt(ctx, seen)
		if err != nil {
			return fmt.Errorf("prompts of format %s: %w", e.Format, err)
		}
		fmt.Fprintf(&words, "%q\n", text)
		seen.Past = append(seen.Past, agent.Step{Observation: seen.Observation, Reply: "reply", Action: "action", Parsed: len(seen.Past) == 0})
	}
	parts["prompts"] = textPart(words.String())
	return nil
}

// listener stands for the endpoint of summaries, whose answers are no part of
// a contract: it writes down what that would be asked.
type listener struct{ words *strings.Builder }

func (l listener) Summarize(_ context.Context, prompt string) (string, error) {
	fmt.Fprintf(l.words, "%q\n", prompt)
	return "summary", nil
}

// maxMemory is more than a memory file grows to.
const maxMemory = 1 << 28

// addOptions adds every option of the episode loop that is set, so that one
// that is added to the loop is part of contracts too.
func addOptions(parts map[string]string, o agent.Options) error {
	o.Instruction = "" // instructionPart
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("options of the episodes: %w", err)
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil {
		return fmt.Errorf("options of the episodes: %w", err)
	}
	for name, value := range values {
		switch v := string(value); v {
		case `""`, "null", "false", "0": // what is not set
		default:
			parts[snake(name)] = v
		}
	}
	return nil
}

// snake writes MaxObsTokens as max_obs_tokens and TopP as top_p.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// addWorldFiles adds the files that a built-in server plays by.
func (s *State) addWorldFiles(parts map[string]string, e configs.Env) error {
	if e.Vocabulary != "" {
		b, err := s.ReadFile(e.Vocabulary, run.MaxVocabulary)
		if err != nil {
			return errext.With(errext.Input, "", err)
		}
		parts["vocabulary"] = textPart(string(b))
	}
	if e.Recipes == "" {
		return nil
	}
	var b strings.Builder
	files := s.DirFS(e.Recipes)
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		fmt.Fprintf(&b, "%q %q\n", path, text)
		return err
	})
	parts["recipes"] = textPart(b.String())
	return errext.With(errext.Input, "", err)
}
