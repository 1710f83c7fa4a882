package configs

import (
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// Schema knows every configuration key: those declared in this package and the
// parameters that registered implementations declare.
type Schema struct {
	words  registry.Vocabulary
	table  []entry // in the order of a written file: the keys of a section come before its subsections
	byName map[string]entry
	usesOf map[string]*use

	// The keys that choose an implementation with parameters.
	losses, estimators, reweightings, scores choice
}

// New returns the schema for the names and parameters in v.
func New(v registry.Vocabulary) *Schema {
	s := &Schema{
		words: v, byName: map[string]entry{},
		losses:       choice{"actor.policy_loss", "actor.", registry.EntriesOf(v.Losses)},
		estimators:   choice{"algo.adv_estimator", "algo.", registry.EntriesOf(v.Estimators)},
		reweightings: choice{"algo.pf_ppo", "algo.", v.Reweightings},
		scores:       choice{components + "fn", components, v.Scores},
	}
	s.table = slices.Concat(modelKeys, s.envKeys(), dataKeys, s.agentKeys(), rolloutKeys, s.rewardKeys(), s.componentKeys(), s.algoKeys(), curriculumKeys,
		s.actorKeys(), criticKeys, refKeys, sftKeys, trainerKeys, perfKeys, s.logKeys())
	for _, e := range s.table {
		s.byName[e.name] = e
	}
	s.usesOf = s.declaredUses()
	return s
}

// Equal reports whether two schemas are the same one.
func (s *Schema) Equal(other *Schema) bool { return s == other }

// Formats returns the prompt formats that need no env.action_format.
func (s *Schema) Formats() []string {
	return registry.NamesOf(s.words.Formats, func(f registry.Format) bool { return !f.Calls })
}

// WritesPrompts reports whether a format writes a new prompt every turn.
func (s *Schema) WritesPrompts(format string) bool { return s.format(format).WritesPrompts }

// ScoreFns returns the names of the registered score functions.
func (s *Schema) ScoreFns() []string { return registry.NamesOf(s.words.Scores, nil) }

// format returns the properties of a prompt format.
func (s *Schema) format(name string) registry.Format {
	f, _ := registry.Find(s.words.Formats, name)
	return f
}

// choice is a key whose value selects an implementation with parameters. The
// parameters are keys of the section.
type choice struct {
	key     string // "actor.policy_loss"
	section string // "actor."
	entries []registry.Entry
}

// keys returns the parameters of a choice as keys, in the order of the entries
// that declare them first. It panics if two entries declare a key with
// different defaults.
func (c choice) keys() []entry {
	var out []entry
	for _, e := range c.entries {
		for _, p := range e.Params {
			name := c.section + p.Key
			i := slices.IndexFunc(out, func(k entry) bool { return k.name == name })
			if i >= 0 {
				if !equalValues(out[i].param.Default, p.Default) {
					panic("configs: two defaults of " + name)
				}
				continue
			}
			out = append(out, entry{name: name, doc: c.doc(p.Key), rule: p.Range, status: Ready, param: &p})
		}
	}
	return out
}

// names returns the entries that declare a parameter.
func (c choice) names(key string) []string {
	return registry.NamesOf(c.entries, func(e registry.Entry) bool { return e.Has(key) })
}

// doc returns the documentation of a parameter, with the entries that declare it.
func (c choice) doc(key string) string {
	var order []string
	names := map[string][]string{}
	for _, e := range c.entries {
		for _, p := range e.Params {
			if p.Key != key {
				continue
			}
			if names[p.Doc] == nil {
				order = append(order, p.Doc)
			}
			names[p.Doc] = append(names[p.Doc], e.Name)
		}
	}
	for i, doc := range order {
		order[i] = strings.Join(names[doc], ", ") + ": " + doc
	}
	return strings.Join(order, "; ")
}

func equalValues(a, b any) bool { return Literal(a) == Literal(b) }

// defaultsOf returns the default of every parameter of some choices.
func defaultsOf(choices ...choice) registry.Values {
	out := registry.Values{}
	for _, c := range choices {
		for _, e := range c.entries {
			for _, p := range e.Params {
				out[p.Key] = p.Default
			}
		}
	}
	return out
}
