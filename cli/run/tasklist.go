package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
)

// TaskList is a list of tasks in a configuration or on the command line.
type TaskList struct {
	Key     string   // key or flag of the list
	Entries []string // index ranges and files
	Label   string   // label of the [[env]] table, or ""
	SkipKey string
	Skip    []string // index ranges
	Limit   int      // number of tasks to draw from the list; 0: all
	Seed    uint64   // seed of the draw of Limit tasks

	// Prompts is the [[env]] table of prompt tasks, nil for other tasks.
	Prompts *configs.Env
}

// ConfiguredTasks returns the list under a key of an [[env]] table.
func ConfiguredTasks(e configs.Env, key string, entries []string, limit int, d configs.Data) TaskList {
	at := "env." + e.Called() + "."
	list := TaskList{Key: at + key, Entries: entries, Label: e.Label, SkipKey: at + "skip_tasks", Skip: e.SkipTasks, Limit: limit, Seed: d.Seed}
	list.ofPrompts(e)
	return list
}

// ofPrompts sets Prompts for an [[env]] table of prompt tasks.
func (l *TaskList) ofPrompts(e configs.Env) {
	if e.Kind == configs.KindPrompt {
		l.Prompts = &e
	}
}

// LoadTasks reads the tasks of a list without the skipped tasks. It returns
// an error if the environment lacks an index, or if no task is
// left.
func LoadTasks(ctx context.Context, h *Host, spec env.Spec, list TaskList) ([]data.Task, error) {
	tasks, err := list.read(ctx, h, spec)
	if err != nil {
		return nil, err
	}
	skipped, err := parseIndices(list.SkipKey, list.Skip)
	if err != nil {
		return nil, err
	}
	slices.Sort(skipped)
	listed := len(tasks)
	tasks, dropped := data.DropTasks(tasks, func(t data.Task) bool {
		_, skip := slices.BinarySearch(skipped, t.Index)
		return !skip
	})
	for _, id := range slices.Sorted(maps.Keys(dropped)) {
		h.Log.Info("rows skipped by "+list.SkipKey, "item", id, "rows", dropped[id])
	}
	if listed > 0 && len(tasks) == 0 {
		return nil, errext.With(errext.Input, "list other tasks, or skip fewer", fmt.Errorf("%s: %s skips all %d tasks", list.Key, list.SkipKey, listed))
	}
	for i := range tasks {
		if err := spec.CheckIndex(tasks[i].Index); err != nil {
			hint := "remove the task"
			if list.SkipKey != "" {
				hint += fmt.Sprintf(", or add %d to %s", tasks[i].Index, list.SkipKey)
			}
			return nil, errext.With(errext.Input, hint,
				fmt.Errorf("%s: task %s: %w", list.Key, tasks[i].ID, err))
		}
	}
	if list.Label != spec.Name {
		for i := range tasks {
			tasks[i].Label = list.Label
		}
	}
	if list.Limit > 0 {
		tasks = data.SampleTasks(tasks, list.Limit, list.Seed)
	}
	return tasks, nil
}

// read reads the entries of the list.
func (l *TaskList) read(ctx context.Context, h *Host, spec env.Spec) ([]data.Task, error) {
	if l.Prompts != nil {
		return loadPrompts(ctx, h, *l.Prompts, *l)
	}
	var tasks []data.Task
	for _, entry := range l.Entries {
		parts := strings.Split(entry, ",")
		for i, part := range parts {
			if part = strings.TrimSpace(part); Schema.IsTaskFile(part) {
				parts[i] = h.Path(part)
			}
		}
		more, err := table.ParseTaskSpec(ctx, strings.Join(parts, ","), table.LoadOptions{Env: spec.Name})
		if err != nil {
			return nil, errext.With(errext.Input, fileHint(err), fmt.Errorf("%s: %w", l.Key, err))
		}
		tasks = append(tasks, more...)
	}
	return tasks, nil
}

// fileHint returns the hint of an error of a data file.
func fileHint(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "give the path of a parquet or JSONL file, relative to the folder of the command"
	}
	return ""
}

// parseIndices parses the index ranges under a key.
func parseIndices(key string, entries []string) ([]int, error) {
	var all []int
	for _, entry := range entries {
		indices, err := configs.ParseIndices(entry)
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", key, err))
		}
		all = append(all, indices...)
	}
	return all, nil
}

// warnLeak warns of validation tasks (measured) that the run also learns from (learned),
// even if they are in different [[env]] tables.
func warnLeak(h *Host, how string, learned, measured []data.Task) {
	for _, o := range data.Shared(data.TasksOf(learned), data.TasksOf(measured)) {
		h.Log.Warn("train/validation leak: validation tasks are "+how+"; their scores do not predict scores on new tasks",
			"env", o.Env, "tasks", len(o.Indices), "of", o.Tasks, "indices", FormatIndices(o.Indices))
	}
}

// FormatIndices formats ascending indices. It abbreviates long lists.
func FormatIndices(indices []int) string {
	const most = 12
	var parts []string
	for _, i := range indices[:min(most, len(indices))] {
		parts = append(parts, strconv.Itoa(i))
	}
	if more := len(indices) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("… %d more", more))
	}
	return strings.Join(parts, ", ")
}
