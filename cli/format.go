package cli

import (
	"context"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
)

// formatOptions say in which format replies are written and prompts shown.
type formatOptions struct {
	Name          string
	HistoryLength int
	MemoryFile    string
	Summary       *configs.Summary // nil: no summaries
}

// formatOf are those of a configured environment.
func formatOf(cfg configs.Config, e configs.Env) formatOptions {
	o := formatOptions{Name: e.Format, HistoryLength: e.HistoryLength, MemoryFile: e.MemoryFile}
	if e.UseSummary {
		o.Summary = &cfg.Agent.Summary
	}
	return o
}

// openFormat opens a format for an environment. What it needs besides is
// closed with open.
func (s *State) openFormat(ctx context.Context, open *closers, spec env.Spec, o formatOptions) (agent.Format, error) {
	fitted := agent.FormatOptions{HistoryLength: o.HistoryLength}
	if o.MemoryFile != "" {
		fitted.MemoryFile = s.Path(o.MemoryFile)
	}
	if o.Summary != nil {
		var err error
		if fitted.Summarizer, err = s.openSummarizer(ctx, open, *o.Summary); err != nil {
			return nil, err
		}
	}
	f, err := agent.FormatFor(o.Name, spec, fitted)
	return f, errext.With(errext.Input, "", err)
}
