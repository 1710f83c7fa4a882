package run

import (
	"context"
	"fmt"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
)

// Supervised training of files needs no environment: without an [[env]] table
// nothing is played, and conversations are learned as they are recorded.

// noEnv is where the rows of such a run are from that name no environment.
const noEnv = "none"

// playsAny reports whether the run plays in any environment.
func (t *training) playsAny() bool {
	if t.mode != supervised {
		return true
	}
	for _, w := range t.worlds {
		if w.Pool != nil {
			return true
		}
	}
	return false
}

// unplayed reads the trajectories of files that are of no environment here.
func (t *training) unplayed(ctx context.Context, key string, files []string, read filesRead) ([]data.Task, error) {
	var tasks []data.Task
	for _, file := range files {
		if t.cfg.SFT.PromptKey != "" {
			pairs, err := t.pairs(ctx, key, file, noEnv)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, pairs...)
			continue
		}
		rows, err := table.LoadTasks(ctx, t.host.Path(file), table.LoadOptions{Env: noEnv, AnyEnv: true})
		if err != nil {
			return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", key, err))
		}
		f := &fileRead{rows: len(rows)}
		read[file] = f
		for _, task := range rows {
			if len(task.Conversation) == 0 {
				f.silent++
				continue
			}
			tasks = append(tasks, task)
		}
	}
	return tasks, nil
}

// pairs reads a file of prompts and responses.
func (t *training) pairs(ctx context.Context, key, file, env string) ([]data.Task, error) {
	pairs, err := table.LoadPairs(ctx, t.host.Path(file), table.PairOptions{Env: env, Prompt: t.cfg.SFT.PromptKey, Response: t.cfg.SFT.ResponseKey})
	if err != nil {
		return nil, errext.With(errext.Input, "", fmt.Errorf("%s: %w", key, err))
	}
	return pairs, nil
}
