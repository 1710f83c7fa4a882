package cli

import (
	"errors"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
)

// formatOf is the format of a configured environment, with its options.
func (s *State) formatOf(cfg configs.Config, e configs.Env, spec env.Spec) (agent.Format, error) {
	o := agent.FormatOptions{HistoryLength: e.HistoryLength}
	if e.MemoryFile != "" {
		o.MemoryFile = s.Path(e.MemoryFile)
	}
	if e.UseSummary {
		var err error
		if o.Summarizer, err = s.summarizer(cfg.Agent.Summary); err != nil {
			return nil, err
		}
	}
	f, err := agent.FormatFor(e.Format, spec, o)
	return f, errWith(ExitInput, "", err)
}

// summarizer is what writes the summaries of the format history. This is where
// a client of an OpenAI-compatible endpoint comes in.
func (s *State) summarizer(configs.Summary) (agent.Summarizer, error) {
	return nil, errWith(ExitInput, "set use_summary = false in [[env]]; history_length past turns are shown then",
		errors.New("use_summary asks an endpoint for summaries, and this version cannot talk to one"))
}
