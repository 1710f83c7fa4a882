// Package vocabulary assembles the names and parameters that a configuration
// may use from the registries of the other packages.
package vocabulary

import (
	"slices"
	"strings"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/correction"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/reward"
)

// New returns the registered names and parameters of this program.
func New() registry.Vocabulary {
	v := registry.Vocabulary{
		Scores:       reward.Functions.Entries(),
		Signals:      reward.Signals.Entries(),
		Allocations:  reward.Allocations.Entries(),
		Aggregations: loss.Aggregations.Entries(),
		Reweightings: advantage.Reweightings.Entries(),
		KLEstimators: kl.Estimators.Entries(),
		Rejections:   correction.RuleNames(),
		Sinks:        track.Sinks.Entries(),
		LoRATargets:  model.LoRATargets(),
		TaskFiles:    table.Endings(),
	}
	v.Scores = append(v.Scores, registry.Entry{Name: "model", Doc: "the output of the reward model at reward.model_path"})
	slices.SortFunc(v.Scores, func(a, b registry.Entry) int { return strings.Compare(a.Name, b.Name) })
	env.Specs.Each(func(e registry.Entry, s env.Spec) {
		var calls []string
		for _, format := range s.ActionFormats {
			calls = append(calls, string(format))
		}
		v.Environments = append(v.Environments, registry.Environment{
			Entry: e, Calls: calls, Tools: s.ToolCall != nil, Cumulative: s.Cumulative, KeepsScore: s.KeepsScore,
			SharedAccount: s.SharedAccount, Builtin: slices.Contains(builtin.Names(), e.Name),
		})
	})
	agent.Formats.Each(func(e registry.Entry, f agent.Format) {
		_, prompting := f.(agent.Prompting)
		_, final := f.(agent.Answering)
		calls := action.Format(e.Name).Calls()
		_, err := agent.FormatFor(e.Name, env.Spec{}, agent.FormatOptions{})
		v.Formats = append(v.Formats, registry.Format{Entry: e, WritesPrompts: prompting, Final: final, Calls: calls, Tools: err != nil && !calls})
	})
	advantage.Estimators.Each(func(e registry.Entry, est advantage.Estimator) {
		v.Estimators = append(v.Estimators, registry.Estimator{
			Entry: e, Groups: est.Grouped || est.InGroup, ByScore: est.Grouped && !est.KeepZeroSpread,
			Critic: est.Needs.Values, Greedy: est.Needs.Baseline, ByPart: est.Needs.Parts,
		})
	})
	loss.Policies.Each(func(e registry.Entry, p loss.Policy) {
		if e.Name != loss.Bypass { // chosen by algo.rollout_correction.bypass_mode
			v.Losses = append(v.Losses, registry.Loss{Entry: e, Aggregation: p.Agg})
		}
	})
	return v
}
