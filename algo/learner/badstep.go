package learner

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch/optim"
)

// A bad step is an optimiser step with a loss or a gradient that is NaN or infinite.
// It is skipped: weights and moments do not change, its batch is written to a file,
// and training continues. Several bad steps in a row mean that the run has diverged,
// and end it.

// maxBadSteps is the number of consecutive bad steps that ends a run.
const maxBadSteps = 3

// NotFiniteError reports a loss that is NaN or infinite. The weights did not change.
type NotFiniteError struct {
	What  string
	Value float64
}

// Error implements error.
func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("the %s is %v; the weights did not change", e.What, e.Value)
}

// DivergedError reports maxBadSteps consecutive bad steps.
type DivergedError struct {
	Steps int   // number of consecutive bad steps
	Last  error // a *NotFiniteError or *optim.NotFiniteError
}

// Error implements error.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("training diverged: %d optimiser steps in a row were not finite, the last because %v; "+
		"lower the learning rate (actor.optim.lr, sft.optim.lr) or grad_clip, give it a warm-up, or compute in float32 (model.compute_dtype)",
		e.Steps, e.Last)
}

// Unwrap returns the error of the last step.
func (e *DivergedError) Unwrap() error { return e.Last }

// BadStep is a skipped optimiser step.
type BadStep struct {
	Cause         error
	OptimizerStep int // number of the step since the optimiser was made, as if it had not been skipped
	LR            float64
	Rows          []data.Row
}

// badSteps counts the bad steps of one actor.
type badSteps struct {
	inARow int
	keep   func(BadStep) error // function of OnBadStep; nil: none
}

// OnBadStep sets a function that is called with every skipped optimiser step. An
// error of the function ends the run.
func (a *Actor) OnBadStep(keep func(BadStep) error) { a.bad.keep = keep }

// BadSteps returns the number of consecutive skipped optimiser steps, up to and
// including the last step.
func (a *Actor) BadSteps() int { return a.bad.inARow }

// SetBadSteps restores the count of BadSteps from a checkpoint.
func (a *Actor) SetBadSteps(n int) { a.bad.inARow = n }

// skip handles the error of an optimiser step. It returns true if the step is
// skipped, and an error if the run must end.
func (a *Actor) skip(rows []data.Row, step optim.Share, err error) (bool, error) {
	if err == nil {
		a.bad.inARow = 0
		return false, nil
	}
	_, loss := errors.AsType[*NotFiniteError](err)
	_, gradient := errors.AsType[*optim.NotFiniteError](err)
	if !loss && !gradient {
		return false, err
	}
	a.bad.inARow++
	if a.bad.keep != nil {
		if failed := a.bad.keep(BadStep{Cause: err, OptimizerStep: step.Of.Steps() + 1, LR: step.LR, Rows: rows}); failed != nil {
			return false, errors.Join(err, failed)
		}
	}
	if a.bad.inARow >= maxBadSteps {
		return false, &DivergedError{Steps: a.bad.inARow, Last: err}
	}
	return true, nil
}

// maxKeptBadSteps bounds the disk space of a run that skips many steps.
const maxKeptBadSteps = 20

// Write creates dir and writes the step to dir/N.json: the cause, and every number
// of its batch that enters the loss. The folder holds at most
// maxKeptBadSteps files; further steps are not written.
func (b BadStep) Write(dir string) error {
	if err := b.write(dir); err != nil {
		return fmt.Errorf("write the batch of a bad step: %w", err)
	}
	return nil
}

func (b BadStep) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	had, err := os.ReadDir(dir)
	if err != nil || len(had) >= maxKeptBadSteps {
		return err
	}
	file := badStepFile{Cause: b.Cause.Error(), OptimizerStep: b.OptimizerStep, LR: b.LR}
	if grad, ok := errors.AsType[*optim.NotFiniteError](b.Cause); ok {
		file.Params = grad.Params
	}
	for i := range b.Rows {
		row := &b.Rows[i]
		file.Rows = append(file.Rows, badRow{
			UID: row.UID, TaskID: row.TaskID, Env: row.Env, Index: row.Index, Sample: row.Sample, Score: exactFloat(row.Score),
			Tokens: row.Tokens, Mask: toInts(row.Mask), RolloutLogProbs: exact(row.RolloutLogProbs), OldLogProbs: exact(row.OldLogProbs),
			RefLogProbs: exact(row.RefLogProbs), Rewards: exact(row.Rewards), Advantages: exact(row.Advantages),
		})
	}
	text, err := json.Marshal(file)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d.json", len(had)+1)), append(text, '\n'), 0o644)
}

type badStepFile struct {
	Cause         string   `json:"cause"`
	Params        []string `json:"params,omitempty"` // names of the parameters with a non-finite gradient
	OptimizerStep int      `json:"optimizer_step"`
	LR            float64  `json:"lr"`
	Rows          []badRow `json:"rows"`
}

type badRow struct {
	UID             string       `json:"uid"`
	TaskID          string       `json:"task_id"`
	Env             string       `json:"env"`
	Index           int          `json:"index"`
	Sample          int          `json:"sample"`
	Score           exactFloat   `json:"score"`
	Tokens          []int32      `json:"tokens"`
	Mask            []int        `json:"mask"`
	RolloutLogProbs []exactFloat `json:"rollout_log_probs"`
	OldLogProbs     []exactFloat `json:"old_log_probs"`
	RefLogProbs     []exactFloat `json:"ref_log_probs"`
	Rewards         []exactFloat `json:"rewards"`
	Advantages      []exactFloat `json:"advantages"`
}

// exactFloat is a number in a file of a bad step. NaN and the infinities, which JSON
// lacks, are written as text.
type exactFloat float64

// MarshalJSON writes a number, or the text "NaN", "+Inf" or "-Inf".
func (x exactFloat) MarshalJSON() ([]byte, error) {
	if v := float64(x); math.IsNaN(v) || math.IsInf(v, 0) {
		return json.Marshal(fmt.Sprint(v))
	}
	return json.Marshal(float64(x))
}

func exact(v []float32) []exactFloat {
	out := make([]exactFloat, len(v))
	for i, x := range v {
		out[i] = exactFloat(x)
	}
	return out
}

func toInts(mask []uint8) []int { // JSON would write a []byte as base64
	out := make([]int, len(mask))
	for i, m := range mask {
		out[i] = int(m)
	}
	return out
}
