package configs

import (
	"reflect"
	"strings"
)

// Status says what this version does with a key.
type Status string

const (
	// Ready keys work.
	Ready Status = "ready"
	// Fixed keys may be written, with the one value that is true already.
	Fixed Status = "fixed"
	// Later keys are part of the specification; setting one is an error.
	Later Status = "not implemented yet"
	// Moved keys have another place here; setting one is an error that says which.
	Moved Status = "moved"
)

// Key is one key of the configuration, for people and for documentation.
type Key struct {
	Name    string // "actor.optim.lr"; keys of [[env]] tables are "env.name"
	Type    string // string, integer, number, boolean, list of strings, table of strings; "" unless Ready
	Doc     string
	Default string // a TOML value; "" unless Ready or Fixed
	Allowed string // "" where every value of the type is
	With    string // the settings that read it, "" where it is always read
	Status  Status
}

// entry is one row of the table of keys.
type entry struct {
	name   string
	doc    string // for Later and Moved: what to do instead
	rule   rule
	status Status
	only   any // the value of a Fixed key
}

// table is every known key, in the order of a written file: sections keep
// together, the keys of a section come before its subsections.
var table = concat(modelKeys, envKeys, dataKeys, agentKeys, rolloutKeys, rewardKeys, componentKeys, algoKeys, curriculumKeys, actorKeys,
	criticKeys, refKeys, sftKeys, trainerKeys, perfKeys, logKeys)

var byName = func() map[string]entry {
	m := make(map[string]entry, len(table))
	for _, e := range table {
		m[e.name] = e
	}
	return m
}()

func concat(parts ...[]entry) []entry {
	var all []entry
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func ready(name, doc string, r rule) entry {
	return entry{name: name, doc: doc, rule: r, status: Ready}
}

func fixed(name string, only any, doc string) entry {
	return entry{name: name, doc: doc, status: Fixed, only: only}
}

func moved(name, instead string) entry {
	return entry{name: name, doc: instead, status: Moved}
}

// later declares keys of one section that are not implemented yet.
func later(section string, keys string) []entry {
	var es []entry
	for k := range strings.FieldsSeq(keys) {
		es = append(es, entry{name: section + "." + k, doc: "not implemented yet", status: Later})
	}
	return es
}

// laterSections are tables of the specification of which nothing is implemented.
var laterSections = []string{"env.tools", "env.webshop"}

// known returns the entry for a key whose [[env]] index was taken out.
func known(name string) (entry, bool) {
	if e, ok := byName[name]; ok {
		return e, true
	}
	for _, s := range laterSections {
		if name == s || strings.HasPrefix(name, s+".") {
			return entry{name: name, status: Later, doc: "not implemented yet"}, true
		}
	}
	return entry{}, false
}

// section reports whether name is a table that holds known keys.
func section(name string) bool {
	for _, e := range table {
		if strings.HasPrefix(e.name, name+".") {
			return true
		}
	}
	return false
}

// Keys returns every known key in the order of a written file.
func Keys() []Key {
	def := Defaults()
	def.Env = []Env{DefaultEnv("maze")}
	def.Reward.Components = []Component{DefaultComponent("name")}
	keys := make([]Key, 0, len(table))
	for _, e := range table {
		k := Key{Name: e.name, Doc: e.doc, Allowed: e.rule.allowed, Status: e.status}
		switch e.status {
		case Ready:
			v := field(&def, instance(e.name, 0))
			k.Type = typeName(v.Type())
			k.Default = literal(v)
			if u := usesOf[e.name]; u != nil {
				k.With = u.with
			}
			if e.name == "env.name" {
				k.Default = ""
			}
		case Fixed:
			k.Default = literal(reflect.ValueOf(e.only))
		}
		keys = append(keys, k)
	}
	return keys
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "true or false"
	case reflect.Array:
		return "list of numbers"
	case reflect.Map:
		return "table of strings"
	default:
		return "list of strings"
	}
}
