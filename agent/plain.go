package agent

// Plain is the format of prompt tasks: the whole reply is the answer. The
// configuration cannot select it.
type Plain struct{}

// Name returns "plain".
func (Plain) Name() string { return "plain" }

// Prompt returns "": the messages of the task are the whole prompt.
func (Plain) Prompt() string { return "" }

// StopStrings returns nil.
func (Plain) StopStrings() []string { return nil }

// Parse returns the reply.
func (Plain) Parse(text string) Parsed { return Parsed{Action: text, Text: text, OK: true} }
