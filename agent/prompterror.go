package agent

import "fmt"

// The options that a PromptError may speak of.
const (
	MaxPromptKey  = "max_prompt_tokens"
	MaxContextKey = "max_context_tokens"
)

// PromptError is a task whose first messages are too long to be played. The
// model never said anything: the options, or the task, have to change.
type PromptError struct {
	Task          string
	Tokens, Limit int
	Key           string // which limit: MaxPromptKey or MaxContextKey
}

// Error names the task, its length and the limit.
func (e *PromptError) Error() string {
	return fmt.Sprintf("the first messages of %s take %d tokens and %s is %d", e.Task, e.Tokens, e.Key, e.Limit)
}
