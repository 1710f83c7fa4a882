package run

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
)

// contract returns everything that can change the result of an evaluation,
// except the compared weights and the seed. docs/eval.md
// describes the parts.
func (p *player) contract(ctx context.Context, program string) (_ eval.Contract, err error) {
	parts := map[string]string{
		"program":     program,
		"server":      "built-in",
		"tasks":       tasksPart(p.tasks, p.world.Spec.Prompts),
		"instruction": instructionPart(p.tasks, p.env.Setup),
	}
	for key, value := range p.cfg.ContractValues() {
		parts[key] = fmt.Sprint(value)
	}
	if err := addFormat(ctx, parts, p.env.Setup, p.cfg.Env[0]); err != nil {
		return eval.Contract{}, err
	}
	if p.world.Server == nil {
		if parts["server"], err = p.world.Pool.Version(ctx); err != nil {
			return eval.Contract{}, errext.With(CodeOf(ctx, err), "fix or remove the server in this error: the contract lists the versions of the servers", err)
		}
	}
	if err := addFiles(p.host, parts, p.cfg.Env[0]); err != nil {
		return eval.Contract{}, err
	}
	if p.bundle == nil {
		parts["chat_template"] = "the endpoint's own"
		return eval.NewContract(parts), nil
	}
	parts["rollout.max_context_tokens"] = strconv.Itoa(p.env.Setup.Options.MaxContext) // the resolved limit, since the key may be 0
	template := p.bundle.ChatTemplate()
	vars, err := json.Marshal(p.bundle.TokenizerConfig.TemplateVars())
	if err != nil {
		return eval.Contract{}, fmt.Errorf("variables of the chat template: %w", err)
	}
	parts["chat_template"] = textPart(template + "\x00" + string(vars))
	if WritesDate(template) {
		parts["date"] = p.day.Format(time.DateOnly)
	}
	return eval.NewContract(parts), nil
}

// textPart is the digest and the length of a text.
func textPart(text string) string {
	return fmt.Sprintf("%s (%d bytes)", eval.Digest([]byte(text)), len(text))
}

// tasksPart is the digest of the ordered list of tasks. For prompt tasks it includes
// the ground truths.
func tasksPart(tasks []data.Task, prompts bool) string {
	var b strings.Builder
	for _, t := range tasks {
		fmt.Fprintf(&b, "%q %d", t.ID, t.Index)
		if prompts {
			fmt.Fprintf(&b, " %q %q", t.Source, t.GroundTruth)
		}
		b.WriteByte('\n')
	}
	return fmt.Sprintf("%s (%d tasks, %s to %s)", eval.Digest([]byte(b.String())), len(tasks), tasks[0].ID, tasks[len(tasks)-1].ID)
}

// instructionPart is the digest of the instructions of all tasks. Tasks may have
// different instructions.
func instructionPart(tasks []data.Task, setup agent.Setup) string {
	var b strings.Builder
	for _, t := range tasks {
		fmt.Fprintf(&b, "%q\n", agent.Instruction(t, setup.Spec, setup.Format, setup.Options.Instruction))
	}
	fmt.Fprintf(&b, "%q", setup.Format.Prompt())
	return textPart(b.String())
}

// addFormat adds the prompts of a format that writes a new prompt every turn.
func addFormat(ctx context.Context, parts map[string]string, setup agent.Setup, e configs.Env) error {
	format, ok := setup.Format.(agent.Prompting)
	if !ok {
		return nil
	}
	var words strings.Builder
	turns := 3
	if e.UseSummary {
		turns = 4 // the prompts of the first and of later summaries differ
		recording, err := agent.FormatFor(e.Format, setup.Spec, agent.FormatOptions{HistoryLength: e.HistoryLength, Summarizer: promptRecorder{&words}})
		if err != nil {
			return fmt.Errorf("prompts of summaries: %w", err)
		}
		format = recording.(agent.Prompting) // cannot panic: same type as setup.Format
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

// promptRecorder replaces the endpoint of summaries and records the prompts. It
// returns a fixed summary, since summaries are not part of a contract.
type promptRecorder struct{ words *strings.Builder }

func (r promptRecorder) Summarize(_ context.Context, prompt string) (string, error) {
	fmt.Fprintf(r.words, "%q\n", prompt)
	return "summary", nil
}

// maxPart bounds the size in bytes of a file of a contract.
const maxPart = 1 << 28

// addFiles adds the contents of the memory file and of the files of a built-in
// server.
func addFiles(h *Host, parts map[string]string, e configs.Env) error {
	for part, file := range map[string]string{"memory_file": e.MemoryFile, "vocabulary": e.Vocabulary} {
		if file == "" {
			continue
		}
		b, err := h.ReadFile(file, maxPart)
		if err != nil {
			return errext.With(errext.Input, "", err)
		}
		parts[part] = textPart(string(b))
	}
	if e.Recipes == "" {
		return nil
	}
	var b strings.Builder
	files := h.DirFS(e.Recipes)
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
