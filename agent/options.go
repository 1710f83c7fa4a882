package agent

import (
	"errors"
	"fmt"
	"slices"
)

// Options holds the settings of the episode loop.
type Options struct {
	MaxTurns     int  // limit on the replies in an episode
	MaxNewTokens int  // limit on the tokens in a reply
	MaxContext   int  // limit on the tokens in a context; the episode ends when it is full
	MaxPrompt    int  // limit on the tokens of the first prompt; 0: only MaxContext limits it
	MaxObsTokens int  // limit on the tokens of an observation after the first; 0: no limit
	ParseLimit   int  // number of consecutive replies without an action that ends an episode; 0 is off
	FinalEnds    bool // an answer that the format marks as final ends the episode

	// The treatment of a task whose first prompt has more than MaxPrompt tokens.
	Truncation     string // TruncateError (also ""), TruncateLeft, TruncateMiddle or TruncateRight
	FilterOverlong bool   // the episode ends with data.OverlongPrompt; Truncation then has no effect

	Temperature float32
	Greedy      bool
	TopP        float32  // 0 or 1 is off
	TopK        int      // 0 is off
	StopStrings []string // in addition to the format's stop strings
	IgnoreEOS   bool     // only MaxNewTokens, MaxContext and stop strings end a reply

	Instruction     string // text of the user's instruction file, "" if none
	InstructionRole string // RoleUser (also "") or RoleSystem
}

// Validate returns all faults of o.
func (o Options) Validate() error {
	errs := []error{
		AtLeast("max_turns", o.MaxTurns, 1),
		AtLeast("max_new_tokens", o.MaxNewTokens, 1),
		AtLeast("max_context", o.MaxContext, 2),
		AtLeast("max_prompt_tokens", o.MaxPrompt, 0),
		AtLeast("max_obs_tokens", o.MaxObsTokens, 0),
		AtLeast("parse_limit", o.ParseLimit, 0),
		AtLeast("top_k", o.TopK, 0),
	}
	if !o.Greedy && !(o.Temperature > 0) {
		errs = append(errs, fmt.Errorf("temperature is %g, must be above 0 unless greedy", o.Temperature))
	}
	if !(o.TopP >= 0 && o.TopP <= 1) {
		errs = append(errs, fmt.Errorf("top_p is %g, must be in [0, 1]", o.TopP))
	}
	if !slices.Contains([]string{"", TruncateError, TruncateLeft, TruncateMiddle, TruncateRight}, o.Truncation) {
		errs = append(errs, fmt.Errorf("truncation is %q, must be %s, %s, %s or %s", o.Truncation, TruncateError, TruncateLeft, TruncateMiddle, TruncateRight))
	}
	_, err := Opening("", "", o.InstructionRole)
	return errors.Join(append(errs, err)...)
}

// AtLeast returns an error if the value of the named option is below least.
func AtLeast(name string, v, least int) error {
	if v < least {
		return fmt.Errorf("%s is %d, must be at least %d", name, v, least)
	}
	return nil
}
