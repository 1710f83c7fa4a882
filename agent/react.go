package agent

import "github.com/openmanus/openmanus/env"

// react is AgentGym's own format: "Thought:" and "Action:" lines. The whole
// reply goes to the client, whose parser, one per environment, cuts the action
// out (protocol section 4); what is found here is only what can be said
// without knowing the environment.
type react struct{}

func (react) Name() string          { return env.FormatReact }
func (react) Prompt() string        { return "" }
func (react) StopStrings() []string { return nil }

func (react) Parse(text string) Parsed {
	action, ok := afterMark(text)
	return Parsed{Action: action, Text: text, OK: ok}
}
