package configs

import (
	"reflect"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// Schema lists every configuration key: the keys of this package and the
// parameters of registered implementations.
type Schema struct {
	words    registry.Vocabulary
	table    []entry // in the order of a written file: the keys of a section come before its subsections
	byName   map[string]entry
	defaults Config // the defaults, with one [[env]] table and one component
	scores   choice
}

// New returns the schema for the names and parameters in v.
func New(v registry.Vocabulary) *Schema {
	s := &Schema{words: v, byName: map[string]entry{}, scores: choice{components, v.Scores}}
	s.table = slices.Concat(s.modelKeys(), s.envKeys(), dataKeys, s.agentKeys(), rolloutKeys, s.serveKeys(), s.rewardKeys(), s.componentKeys(), s.algoKeys(), curriculumKeys,
		s.actorKeys(), s.criticKeys(), refKeys, s.sftKeys(), s.trainerKeys(), distKeys, perfKeys, s.logKeys())
	s.defaults = Config{Schema: s, Env: make([]Env, 1)}
	s.defaults.Algo.Params, s.defaults.Actor.Params = registry.Values{}, registry.Values{}
	s.defaults.Reward.Components = []Component{{Params: registry.Values{}}}
	for i, e := range s.table {
		s.byName[e.name] = e
		if e.status != Ready {
			continue
		}
		s.defaults.store(instance(e.name, 0), func(dst reflect.Value) {
			if e.def != nil {
				dst.Set(reflect.ValueOf(e.def).Convert(dst.Type()))
			}
			s.table[i].def = dst.Interface()
		})
		s.byName[e.name] = s.table[i]
	}
	return s
}

// Defaults returns the configuration of an empty file: recommended values if
// known (clip-higher, no entropy bonus, untruncated sampling), otherwise the
// original's defaults. It names no model and no environment, so it is not valid
// by itself.
func (s *Schema) Defaults() Config {
	c := s.defaults.Clone()
	c.Env, c.Reward.Components = nil, nil
	return c
}

// DefaultEnv returns an [[env]] table with the default of every key except its name.
// Format and MaxTurns are unset: loading takes them from ActionFormat and [agent].
func (s *Schema) DefaultEnv(name string) Env {
	e := s.defaults.Clone().Env[0]
	e.Name = name
	return e
}

// DefaultComponent returns a [reward.components.NAME] table without keys. Fn is
// empty: resolving a configuration sets it to the name.
func (s *Schema) DefaultComponent(name string) Component {
	p := s.defaults.Clone().Reward.Components[0]
	p.Name = name
	return p
}

// Equal reports whether two schemas are the same object.
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

// choice lists the implementations that a key can select. Their parameters are
// keys of the section of that key.
type choice struct {
	section string // "actor."
	entries []registry.Entry
}

// keys returns the parameters of a choice as keys, in the order of the entries that declare them first. The
// parameter selects is a function: it returns the condition under which one of the named entries is chosen. keys
// panics if two entries declare a key with different defaults.
func (c choice) keys(selects func(names ...string) use) []entry {
	var out []entry
	for _, e := range c.entries {
		for _, p := range e.Params {
			name := c.section + p.Key
			i := slices.IndexFunc(out, func(k entry) bool { return k.name == name })
			if i < 0 {
				k := ready(name, p.Default, c.doc(p.Key), p.Range, selects(c.names(p.Key)...))
				k.param = true
				out = append(out, k)
			} else if Literal(out[i].def) != Literal(p.Default) {
				panic("configs: two defaults of " + name)
			}
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
