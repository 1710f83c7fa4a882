package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/openmanus/openmanus/algo/curriculum"
	"github.com/openmanus/openmanus/data"
)

// State is the part of a checkpoint in addition to the weights and the optimiser:
// everything else that the next step depends on. Random draws are keyed by seed and step, so no generator has a
// state.
type State struct {
	Step           int               `json:"step"`         // number of finished training steps
	Supervised     bool              `json:"supervised"`   // whether the steps are steps of supervised training
	WarmSteps      int               `json:"warm_steps"`   // number of finished steps of the warm start
	WarmStarted    bool              `json:"warm_started"` // whether the warm start is over
	Begun          bool              `json:"begun"`        // whether the validation after the warm start is over
	Finished       bool              `json:"finished"`
	Inputs         map[string]string `json:"inputs,omitempty"` // digests of the tasks and files of the configuration
	WeightVersion  int64             `json:"weight_version"`
	Order          data.OrderState   `json:"order"`          // position in the task order of a run of one environment
	MetricsOffset  int64             `json:"metrics_offset"` // number of bytes of metrics.jsonl that belong to finished steps
	Seed           uint64            `json:"seed"`
	Day            string            `json:"day,omitempty"`       // date of the run's start, for prompts with a date: 2026-01-31
	KLCoef         *float64          `json:"kl_coef,omitempty"`   // coefficient of the KL in the reward; nil: off
	BadSteps       int               `json:"bad_steps,omitempty"` // number of consecutive bad steps up to the last optimiser step
	CriticBadSteps int               `json:"critic_bad_steps,omitempty"`
	Validations    []Validation      `json:"validations"`
	Curriculum     *curriculum.State `json:"curriculum,omitempty"` // statistics of the tasks that were played
	Best           *Best             `json:"best,omitempty"`       // nil before the first validation

	// Kept is the number of episodes that AgentEvol keeps in the checkpoint. Checkpoints
	// of an earlier format have KeptRows, the number of rows of these episodes, instead.
	Kept     int `json:"kept_episodes,omitempty"`
	KeptRows int `json:"kept_rows,omitempty"`

	// Mixture is the position in the order of tasks in a run of several environments.
	Mixture *data.MixtureState `json:"mixture,omitempty"`

	// Unreported are the metrics of the last step if its validation or the writing of
	// its line failed or was interrupted; nil otherwise. A resumed run first reports
	// them.
	Unreported exactMetrics `json:"unreported,omitempty"`
}

// exactMetrics are metrics that JSON preserves even if they are NaN or infinite.
type exactMetrics map[string]float64

// MarshalJSON writes every value as text.
func (m exactMetrics) MarshalJSON() ([]byte, error) {
	text := make(map[string]string, len(m))
	for name, x := range m {
		text[name] = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (m *exactMetrics) UnmarshalJSON(b []byte) error {
	var text map[string]string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	*m = make(exactMetrics, len(text))
	for name, s := range text {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return fmt.Errorf("unreported metric %s: %w", name, err)
		}
		(*m)[name] = x
	}
	return nil
}

// Files of a checkpoint folder.
const (
	stateFile   = "state.json"
	ActorFolder = "actor" // a Hugging Face folder
	ConfigFile  = "config.toml"
)

// ReadState reads the state of a checkpoint folder.
func ReadState(dir string) (State, error) {
	var st State
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return st, fmt.Errorf("read the state of the checkpoint: %w", err)
	}
	if err := json.Unmarshal(b, &st); err != nil {
		return st, fmt.Errorf("%s: %w", filepath.Join(dir, stateFile), err)
	}
	return st, nil
}

// Write writes the state to a checkpoint folder.
func (s *State) Write(dir string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, stateFile), append(b, '\n'), 0o644)
}

// DrawState returns the position in the task order for a run with the given number
// of environments. It returns an error if the checkpoint is of a run of another kind.
func (s *State) DrawState(envs int) (data.MixtureState, error) {
	switch {
	case s.Mixture != nil:
		return *s.Mixture, nil
	case envs == 1:
		return data.MixtureState{Orders: []data.OrderState{s.Order}}, nil
	}
	return data.MixtureState{}, errors.New("the checkpoint has no task order for several environments: a run of one environment or an older version wrote it; start a new run from the weights of the checkpoint")
}

// SetDrawState records the position in the task order.
func (s *State) SetDrawState(st data.MixtureState) {
	if len(st.Orders) == 1 {
		s.Order, s.Mixture = st.Orders[0], nil
		return
	}
	s.Order, s.Mixture = data.OrderState{}, &st
}
