package env

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/env/action"
)

// Spec is what the program knows about an environment before it talks to a
// server of it.
type Spec struct {
	Name       string
	Doc        string // one line for people
	PathSuffix string // added to the server's address where it lacks it

	// New creates an instance on the server at Options.BaseURL.
	New func(ctx context.Context, o Options) (Client, error)
	// Instruction tells the model, in our own words, what the environment is,
	// what it may do, and how to write its reply under a prompt format.
	Instruction func(format string) string

	// ActionFormats lists what Options.ActionFormat may be beside ActionReact.
	ActionFormats []action.Format

	// ToolCall writes a call of a tool, whose input is JSON, as the action that
	// the server reads; ok is false where it cannot be called so. ToolAnswer
	// writes the action that gives an answer. Both are nil where the server
	// has no tools.
	ToolCall   func(name string, input json.RawMessage) (action string, ok bool)
	ToolAnswer func(text string) string

	// Tools are the names of the server's tools, nil where it has none.
	Tools []string

	// OwnTags are the tags that the server looks for in the text itself.
	OwnTags []string

	// RecordedStart takes the first observation out of a recorded message in
	// which upstream's client fused it with the instruction; nil where
	// recordings hold it alone.
	RecordedStart func(message string) string
	// SuccessReward is the threshold a success lies above (strictly, as in
	// AgentGym's own filter), on the scale of StepResult.Reward.
	SuccessReward float64
	MaxTurns      int // turns AgentGym's own evaluation allows

	// IndexValid names what is wrong with an index, nil if it is a task. A
	// negative index never reaches it.
	IndexValid func(index int) error
	// Family names the group of tasks an index belongs to, for figures per
	// group; nil where the index does not tell.
	Family func(index int) string

	// MaxInstances is how many instances one server holds. One more create is
	// answered with an instance that somebody has already. 0: no such limit.
	MaxInstances int
	// OneAtATime says that a server works on one request at a time, whatever
	// instance it is for: more calls at once only wait for each other.
	OneAtATime bool
	// Deterministic says that the same index and the same actions give the
	// same observations on the same server, so that a lost episode can be
	// played again from its actions. Another server may differ (textcraft's
	// recipes do): compare what comes back.
	Deterministic bool
	// Cumulative says that StepResult.Reward is a running score of the
	// episode: its last value is the episode's, and a sum of them means
	// nothing.
	Cumulative bool
	// KeepsScore reports that the server keeps a score beside its reward, and
	// that the client returns it as StepResult.Reward.
	KeepsScore bool
	// SharedAccount reports that all servers started here work on one account
	// of an outside service, so that a second one spoils the first one's
	// episodes.
	SharedAccount bool
	// Greeting is what GET / of the server says, as text; "" where that is not
	// known. Some servers send it bare, most as a JSON string.
	Greeting string
}

// Success reports whether reward, as a Client hands it on, means success.
func (s Spec) Success(reward float64) bool { return reward > s.SuccessReward }

// CheckIndex refuses what the environment's servers would refuse, or worse,
// take: a negative index counts from the end of some servers' task lists.
func (s Spec) CheckIndex(index int) error {
	if index < 0 {
		return &IndexError{Env: s.Name, Index: index, Why: "an index is 0 or greater"}
	}
	if s.IndexValid == nil {
		return nil
	}
	if err := s.IndexValid(index); err != nil {
		return &IndexError{Env: s.Name, Index: index, Why: err.Error()}
	}
	return nil
}

// IndexError is a task index that no request is made for.
type IndexError struct {
	Env   string
	Index int
	Why   string
}

// Error names the environment, the index, and the reason.
func (e *IndexError) Error() string {
	return fmt.Sprintf("%s has no task %d: %s", e.Env, e.Index, e.Why)
}

// Specs holds the environments by name.
var Specs = registry.New[Spec]("environment")

// Register adds an environment. It is called from init functions and panics
// on a second environment of the same name or a Spec that lacks a part.
func Register(name string, s Spec) {
	if s.New == nil || s.Instruction == nil || s.MaxTurns <= 0 {
		panic("env: incomplete spec of " + name)
	}
	s.Name = name
	Specs.Add(registry.Entry{Name: name, Doc: s.Doc}, s)
}

// Lookup finds an environment by name. The error lists the names there are.
func Lookup(name string) (Spec, error) { return Specs.Lookup(name) }

// Names lists the registered environments in order.
func Names() []string { return Specs.Names() }
