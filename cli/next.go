package cli

import (
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// evalAgain returns the arguments of `openmanus eval` that play an environment
// of a run as the run validates: its validation tasks, or else its training
// tasks. config is the file in the run's folder.
func evalAgain(config, actor string, cfg configs.Config, e configs.Env) []string {
	words := []string{"--model", errext.ShellQuote(actor)}
	if len(cfg.Env) > 1 {
		words = append(words, "--env", e.Called())
	}
	if len(e.ValTasks) == 0 {
		words = append(words, "--split", "train")
	}
	return append(words, errext.ShellQuote(config))
}
