package run

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
)

// loadPrompts reads prompt tasks: the rows of files. The index of a task is derived
// from its prompt, so that equal prompts of two files are recognised as one task.
func loadPrompts(ctx context.Context, h *Host, e configs.Env, list TaskList) ([]data.Task, error) {
	instruction, err := ReadInstruction(h, e.Instruction, e.InstructionFile)
	if err != nil {
		return nil, err
	}
	var tasks []data.Task
	for part := range strings.SplitSeq(strings.Join(list.Entries, ","), ",") {
		path := strings.TrimSpace(part)
		if path == "" {
			continue
		}
		t, err := table.Read(ctx, h.Path(path))
		if err != nil {
			return nil, errext.With(errext.Input, fileHint(err), fmt.Errorf("%s: %w", list.Key, err))
		}
		more, err := mapRows(t, path, func(i int, row map[string]any) (data.Task, error) {
			return promptTask(e, instruction, row, len(tasks)+i)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list.Key, err)
		}
		tasks = append(tasks, more...)
	}
	return tasks, nil
}

// promptTask returns row n as a task.
func promptTask(e configs.Env, instruction string, row map[string]any, n int) (data.Task, error) {
	t := data.Task{ID: fmt.Sprintf("%s_%d", e.Name, n), Env: e.Name}
	column := func(key string, usual ...string) string {
		if key != "" {
			return key
		}
		i := slices.IndexFunc(usual, func(name string) bool { return table.At(row, name) != nil })
		return usual[max(i, 0)]
	}
	key := column(e.PromptKey, PromptColumn, "question")
	if table.At(row, key) == nil {
		return t, fmt.Errorf("it has no column %s: name the column of the prompts with prompt_key in [[env]]; columns: %s", key, strings.Join(slices.Sorted(maps.Keys(row)), ", "))
	}
	var err error
	if t.Prompt, err = promptOf(row, key); err != nil {
		return t, err
	}
	if last := t.Prompt[len(t.Prompt)-1].Role; last != "user" {
		return t, fmt.Errorf("column %s ends with a message of role %q: the last message of a prompt has the role user", key, last)
	}
	if strings.TrimSpace(t.Prompt[len(t.Prompt)-1].Content) == "" {
		return t, fmt.Errorf("column %s has an empty prompt: give it a text, or remove the row", key)
	}
	if instruction != "" {
		first := slices.IndexFunc(t.Prompt, func(m data.Message) bool { return m.Role == "user" })
		t.Prompt[first].Content = strings.TrimRight(instruction, "\n") + "\n\n" + t.Prompt[first].Content
	}
	t.GroundTruth = table.TextAt(row, column(e.AnswerKey, GroundTruthColumn, "answer"))
	t.Source = table.TextAt(row, e.SourceKey)
	digest := fnv.New64a()
	if err := json.NewEncoder(digest).Encode(t.Prompt); err != nil {
		return t, err
	}
	t.Index = int(digest.Sum64() >> 12) // 52 bits, which JSON's numbers hold exactly
	return t, checkTruth(e, t)
}

// checkTruth returns an error if the score function of prompt tasks cannot score a row.
func checkTruth(e configs.Env, t data.Task) error {
	fn := e.ScoreFn
	if fn == "data_source" {
		name, ok := reward.SourceFunction(t.Source)
		if !ok {
			return fmt.Errorf("%w %q: give score_fn in [[env]] (docs/rewards.md), or name the column of the data sources with source_key", reward.ErrNoFunction, t.Source)
		}
		fn = name
	}
	if f, err := reward.Functions.Lookup(fn); err == nil && f.NeedsTruth && t.GroundTruth == "" {
		return fmt.Errorf("score function %s: %w: name the column of the ground truths with answer_key in [[env]]", fn, reward.ErrNoGroundTruth)
	}
	return nil
}
