package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/reward/external"
)

// SpecOf returns the environment of an [[env]] table. Prompt tasks need a judge to be
// played: see openJudge.
func SpecOf(e configs.Env) (env.Spec, error) { return specOf(e, nil) }

func specOf(e configs.Env, judge env.Judge) (env.Spec, error) {
	switch e.Kind {
	case configs.KindAgentGym:
		return env.AgentGym(e.Name, env.Own{SuccessReward: e.SuccessReward, Deterministic: e.Deterministic, Cumulative: e.Cumulative}), nil
	case configs.KindPrompt:
		return env.Prompts(e.Name, e.SuccessReward, judge), nil
	}
	spec, err := env.Lookup(e.Name)
	return spec, errext.With(errext.Input, "", err)
}

// promptScorer opens the score function of an [[env]] table of prompt tasks.
func promptScorer(h *Host, e configs.Env) (reward.Scorer, error) {
	params, msg := Schema.ScoreParams(e.ScoreFn, e.ScoreParams)
	if msg != "" {
		return nil, errext.With(errext.Input, "", errors.New(msg))
	}
	return openScorer(h, configs.Component{Fn: e.ScoreFn, Params: params}, configs.Reward{ScoreTimeoutS: e.TimeoutS, ScoreBatchSize: 1})
}

// openJudge opens the score function of prompt tasks and returns the judge of replies.
// It starts a program at once, so that a failed start ends the run before anything is
// played. The function that closes the score function is added to the parameter open.
func openJudge(ctx context.Context, h *Host, e configs.Env) (env.Judge, func(context.Context) error, error) {
	scorer, err := promptScorer(h, e)
	if err != nil {
		return nil, nil, fmt.Errorf("env.%s.score_fn: %w", e.Called(), err)
	}
	if p, ok := scorer.(external.Starter); ok {
		if err := p.Start(ctx); err != nil {
			return nil, nil, errors.Join(errext.With(errext.Env, "run the command of the program in a shell to find the cause", fmt.Errorf("env.%s.score_fn: %w", e.Called(), err)), scorer.Close())
		}
	}
	var mu sync.Mutex // a Scorer works for one goroutine at a time
	judge := func(ctx context.Context, task data.Task, reply string) (float64, error) {
		s := reward.Sample{
			ID: task.ID, Source: cmp.Or(task.Source, task.Env), Response: reply, GroundTruth: task.GroundTruth, Tokens: -1,
			Messages: append(slices.Clone(task.Prompt), data.Message{Role: "assistant", Content: reply}),
		}
		var prompt []string
		for _, m := range task.Prompt {
			prompt = append(prompt, m.Content)
		}
		s.Prompt = strings.Join(prompt, "\n")
		mu.Lock()
		defer mu.Unlock()
		composed, err := (&reward.Composer{Components: []reward.Component{{Name: e.ScoreFn, Weight: 1, Scorer: scorer}}}).Score(ctx, []reward.Sample{s})
		if err != nil {
			return 0, err
		}
		return composed.Scores[0], nil
	}
	return judge, func(context.Context) error { return scorer.Close() }, nil
}

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
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", list.Key, err))
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
