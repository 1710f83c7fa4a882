package cli

import (
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward"
)

// scoreNext finds the command that judges what generate wrote.
type scoreNext struct {
	sources bool // every row's data_source has a function
	truths  bool // every row has a ground truth
}

func (n *scoreNext) see(row map[string]any) {
	_, ok := reward.SourceFunction(table.TextAt(row, dataSourceColumn))
	n.sources = n.sources && ok
	n.truths = n.truths && table.TextAt(row, groundTruthColumn) != ""
}

// text is the command. Where the rows do not say how they are judged, the
// function is left to the user.
func (n *scoreNext) text(o generateOptions) string {
	command := "Next: openmanus score " + errext.ShellQuote(o.Out)
	if o.PromptKey != promptColumn {
		command += " --prompt-key " + errext.ShellQuote(o.PromptKey)
	}
	if o.ResponseKey != responseColumn {
		command += " --response-key " + errext.ShellQuote(o.ResponseKey)
	}
	command += " --score-fn "
	switch {
	case n.sources && n.truths:
		return command + "data_source\n"
	case n.truths:
		return command + "FUNCTION\nFUNCTION is one of those that openmanus score --help names: not every row has a data_source that says which.\n"
	}
	return command + "FUNCTION\nFUNCTION is one of those that openmanus score --help names, and needs no ground truth: not every row has one in " + groundTruthColumn + ".\n"
}
