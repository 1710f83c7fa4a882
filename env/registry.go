package env

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/env/action"
)

// Spec describes an environment without its servers.
type Spec struct {
	Name       string
	Doc        string // one line of documentation
	PathSuffix string // path of the endpoints, added to a server's address that does not end with it

	// New creates an instance on the server at Options.BaseURL.
	New func(ctx context.Context, o Options) (Client, error)
	// Instruction returns the text that explains to the model the environment, the
	// actions, and the shape of a reply under a prompt format.
	Instruction func(format string) string

	// ActionFormats lists the supported values of Options.ActionFormat in addition to
	// action.React.
	ActionFormats []action.Format

	// ToolCall returns the action that calls a tool with an input in JSON; ok is
	// false if the call is invalid. ToolAnswer returns the action that states an
	// answer. Both are nil if the server has no tools.
	ToolCall   func(name string, input json.RawMessage) (action string, ok bool)
	ToolAnswer func(text string) string

	// Tools lists the names of the server's tools, or is nil if the server has no tools.
	Tools []string

	// OwnTags lists the tags that the server itself reads in the model's reply.
	OwnTags []string

	// RecordedStart extracts the first observation from a recorded message that also
	// contains the instruction of upstream's client. It is nil if there are no such
	// messages.
	RecordedStart func(message string) string
	// SuccessReward is the threshold of a success: an episode is a success if its
	// StepResult.Reward is greater, as in AgentGym's filter.
	SuccessReward float64
	MaxTurns      int // turn limit of AgentGym's evaluation

	// IndexValid returns an error if an index of 0 or greater is not a task. If
	// IndexValid is nil, every index of 0 or greater is a task.
	IndexValid func(index int) error
	// Family returns the name of the group of tasks that contains an index, for
	// metrics per group. It is nil if the index does not determine a group.
	Family func(index int) string

	// MaxInstances is the number of instances that a server can create; 0: any
	// number. After that many, /create returns an instance that is in use.
	MaxInstances int
	// OneAtATime means that a server handles one request at a time over all
	// instances. Further concurrent calls wait.
	OneAtATime bool
	// Deterministic means that the same index and actions give the same observations
	// on the same server, so that a lost episode can be replayed from its actions.
	// Another server may give other observations, since for example its textcraft
	// recipes differ, so a replay must compare the observations.
	Deterministic bool
	// Cumulative means that StepResult.Reward is a running score of the episode: the
	// last value is the episode's reward, and the sum is meaningless.
	Cumulative bool
	// KeepsScore means that the server keeps a score in addition to its reward. The
	// client returns the score as StepResult.Reward.
	KeepsScore bool
	// SharedAccount means that all servers started here use one account of an
	// external service, so that a second server would disturb the episodes of the
	// first.
	SharedAccount bool
	// Own means that the environment is a user's own (see AgentGym), so that only the
	// configuration describes it.
	Own bool
	// Prompts means that a task is the messages of its data row with one reply (see
	// Prompts): instances live in this process, and there are no servers.
	Prompts bool
	// Greeting is the server's reply to GET /, "" if unknown. Most servers send it as
	// a JSON string, some as plain text.
	Greeting string
}

// Success reports whether a StepResult.Reward means success.
func (s Spec) Success(reward float64) bool { return reward > s.SuccessReward }

// CheckIndex returns an error if index is not a task. Some servers would count a
// negative index from the end of their list.
func (s Spec) CheckIndex(index int) error {
	if index < 0 {
		return fmt.Errorf("%s has no task %d: an index is 0 or greater", s.Name, index)
	}
	if s.IndexValid != nil {
		if err := s.IndexValid(index); err != nil {
			return fmt.Errorf("%s has no task %d: %w", s.Name, index, err)
		}
	}
	return nil
}

// Specs contains the environments by name.
var Specs = registry.New[Spec]("environment")

// Register adds an environment. It is called from init functions, and panics if the
// name is taken or the Spec is incomplete.
func Register(name string, s Spec) {
	if s.New == nil || s.Instruction == nil || s.MaxTurns <= 0 {
		panic("env: incomplete spec of " + name)
	}
	s.Name = name
	Specs.Add(registry.Entry{Name: name, Doc: s.Doc}, s)
}

// Lookup returns the environment with a name. The error lists the known names.
func Lookup(name string) (Spec, error) { return Specs.Lookup(name) }

// Names lists the environments in order.
func Names() []string { return Specs.Names() }

// below returns a Spec.IndexValid for n tasks. noun is the plural of the tasks' name.
func below(n int, noun string) func(int) error {
	return func(i int) error {
		if i >= n {
			return fmt.Errorf("the %s are 0 to %d", noun, n-1)
		}
		return nil
	}
}

// families lists ranges of task indices in ascending order, each with its first index and its name.
type families []struct {
	from int
	name string
}

// at returns the name of the range that contains index. It is a Spec.Family.
func (fs families) at(index int) string {
	name := ""
	for _, f := range fs {
		if index >= f.from {
			name = f.name
		}
	}
	return name
}
