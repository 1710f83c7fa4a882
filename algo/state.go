package algo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/openmanus/openmanus/data"
)

// State is what a checkpoint holds besides weights and optimiser: everything
// the next step depends on. Random draws are keyed by seed and step, so no
// generator has a state of its own.
type State struct {
	Step          int             `json:"step"` // finished training steps
	WarmStarted   bool            `json:"warm_started"`
	Finished      bool            `json:"finished"`
	WeightVersion int64           `json:"weight_version"`
	Order         data.OrderState `json:"order"`
	MetricsOffset int64           `json:"metrics_offset"` // bytes of metrics.jsonl that belong to finished steps
	Seed          uint64          `json:"seed"`
	ConfigHash    string          `json:"config_hash"`
	Validations   []Validation    `json:"validations"`
}

// Files of a checkpoint folder.
const (
	stateFile     = "state.json"
	optimizerFile = "optimizer.safetensors"
	ActorFolder   = "actor" // a Hugging Face folder
	configFile    = "config.toml"
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

func writeState(dir string, st State) error {
	b, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, stateFile), append(b, '\n'), 0o644)
}
