package registry

import "slices"

// Vocabulary holds the registered names that a configuration may use, with the
// properties that decide which settings go together. Package
// configs/vocabulary assembles it from the registries.
type Vocabulary struct {
	Environments []Environment // env.name
	Formats      []Format      // agent.format, env.format
	Estimators   []Estimator   // algo.adv_estimator
	Losses       []Loss        // actor.policy_loss
	Scores       []Entry       // reward.score_fn, reward.components.NAME.fn
	Signals      []Entry       // reward.signal
	Allocations  []Entry       // reward.allocation
	Aggregations []Entry       // actor.loss_agg
	Reweightings []Entry       // algo.pf_ppo
	KLEstimators []Entry       // algo.kl_penalty; actor.kl_loss_type also has "full" and names with "+"
	Rejections   []string      // algo.rollout_correction.rollout_rs
	Sinks        []Entry       // log.backends
	LoRATargets  []string      // model.target_modules
	TaskFiles    []string      // endings of the names of task files
}

// Environment describes an environment.
type Environment struct {
	Entry
	Calls         []string // action formats that call functions
	Tools         bool     // the server has tools: the format tool_call works
	Cumulative    bool     // rewards are running scores
	KeepsScore    bool     // the server keeps a score in addition to the reward
	SharedAccount bool     // launched servers share one account
	Builtin       bool     // this program includes its server
}

// Format describes a prompt format.
type Format struct {
	Entry
	WritesPrompts bool // every turn has a new prompt
	Final         bool // a reply can be marked as the last one
	Tools         bool // needs an environment with tools
	Calls         bool // calls functions; chosen by env.action_format
}

// Estimator describes an advantage estimator.
type Estimator struct {
	Entry
	Groups  bool // compares the episodes of a group
	ByScore bool // advantages in a group of equal scores are 0: the loss omits the group
	Critic  bool // needs a critic's values
	Greedy  bool // needs the score of a greedy episode of the task
	ByPart  bool // needs the parts of the reward
}

// Loss describes a policy loss.
type Loss struct {
	Entry
	Aggregation string // the only aggregation for which the loss is defined; "" for any
}

// named is implemented by everything that embeds Entry.
type named interface{ entry() Entry }

func (e Entry) entry() Entry { return e }

// EntriesOf returns the declarations in a list.
func EntriesOf[T named](list []T) []Entry {
	out := make([]Entry, len(list))
	for i, x := range list {
		out[i] = x.entry()
	}
	return out
}

// NamesOf returns the names of the entries for which the function keep returns
// true, or all names if keep is nil.
func NamesOf[T named](list []T, keep func(T) bool) []string {
	var out []string
	for _, x := range list {
		if keep == nil || keep(x) {
			out = append(out, x.entry().Name)
		}
	}
	return out
}

// Find returns the entry with that name, or the zero value.
func Find[T named](list []T, name string) (T, bool) {
	i := slices.IndexFunc(list, func(x T) bool { return x.entry().Name == name })
	if i < 0 {
		var none T
		return none, false
	}
	return list[i], true
}
