package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
	"github.com/openmanus/openmanus/reward/external"
)

// promptScorer opens the score function of an [[env]] table of prompt tasks.
func promptScorer(h *Host, e configs.Env) (reward.Scorer, error) {
	params, msg := Schema.ScoreParams(e.ScoreFn, e.ScoreParams)
	if msg != "" {
		return nil, errext.With(errext.Input, "", errors.New(msg))
	}
	return openScorer(h, configs.Component{Fn: e.ScoreFn, Params: params}, configs.Reward{ScoreTimeoutS: e.TimeoutS, ScoreBatchSize: 1}, "env."+e.Called()+".timeout_s")
}

// openJudge opens the score function of prompt tasks and returns the judge of replies.
// It starts a program at once, so that a failed start ends the run before anything is
// played. The second result closes the score function.
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
