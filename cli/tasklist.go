package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
)

// taskList is a list of tasks as somebody wrote it.
type taskList struct {
	Key     string   // where it is written: a key, or a flag
	Entries []string // index ranges and files
	Label   string   // of the table, if it has one
	SkipKey string
	Skip    []string // index ranges
	Limit   int      // tasks to keep; 0: all
	Seed    uint64   // of which are kept
}

// configured is a list of an [[env]] table.
func configured(e configs.Env, key string, entries []string, limit int, d configs.Data) taskList {
	at := "env." + e.Called() + "."
	return taskList{Key: at + key, Entries: entries, Label: e.Label, SkipKey: at + "skip_tasks", Skip: e.SkipTasks, Limit: limit, Seed: d.Seed}
}

// skipping is how one more index is skipped.
func (l taskList) skipping(index int) string {
	if strings.HasPrefix(l.SkipKey, "--") {
		return fmt.Sprintf("%s %d", l.SkipKey, index)
	}
	return fmt.Sprintf("%s = [%q]", l.SkipKey, fmt.Sprint(index))
}

// loadTasks reads the tasks of a list and leaves out those that are skipped. A
// task that every server of the environment refuses is an error, and so is a
// list of which nothing is left.
func (s *State) loadTasks(ctx context.Context, spec env.Spec, list taskList) ([]data.Task, error) {
	var tasks []data.Task
	for _, entry := range list.Entries {
		parts := strings.Split(entry, ",")
		for i, part := range parts {
			if part = strings.TrimSpace(part); configs.IsTaskFile(part) {
				parts[i] = s.Path(part)
			}
		}
		more, err := table.ParseTaskSpec(ctx, strings.Join(parts, ","), table.LoadOptions{Env: spec.Name})
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", list.Key, err))
		}
		tasks = append(tasks, more...)
	}
	skipped := map[int]bool{}
	for _, entry := range list.Skip {
		indices, err := configs.ParseIndices(entry)
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", list.SkipKey, err))
		}
		for _, i := range indices {
			skipped[i] = true
		}
	}
	listed := len(tasks)
	tasks, dropped := data.DropTasks(tasks, func(t data.Task) bool { return !skipped[t.Index] })
	for _, id := range sortedKeys(dropped) {
		s.Log.Info("rows left out, as "+list.SkipKey+" asks", "item", id, "rows", dropped[id])
	}
	if listed > 0 && len(tasks) == 0 {
		return nil, errext.With(errext.Input, "list others, or skip fewer", fmt.Errorf("%s: %s leaves none of the %d tasks", list.Key, list.SkipKey, listed))
	}
	for i := range tasks {
		if err := spec.CheckIndex(tasks[i].Index); err != nil {
			return nil, errext.With(errext.Input, "take it out, or leave it out with "+list.skipping(tasks[i].Index),
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
