package view

import (
	"path/filepath"
	"strings"
)

// Origin names the rollouts that an episode of a run's folder is from: "step 21"
// for step_21.jsonl, and other files, such as those of validations, by their
// name without its endings.
func Origin(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".zst")
	name = strings.TrimSuffix(name, ".jsonl")
	if step, ok := strings.CutPrefix(name, "step_"); ok {
		return "step " + step
	}
	return name
}
