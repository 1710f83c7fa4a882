package configs

import (
	"reflect"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// Status is how this version treats a key.
type Status string

const (
	// Ready keys work.
	Ready Status = "ready"
	// Fixed keys accept only their one value.
	Fixed Status = "fixed"
	// Later keys are part of the specification; setting one is an error.
	Later Status = "not implemented yet"
	// Moved keys have another name here; setting one is an error that names it.
	Moved Status = "moved"
)

// Key is one key of the configuration, for people and for documentation.
type Key struct {
	Name    string // "actor.optim.lr"; keys of [[env]] tables are "env.name"
	Type    string // string, integer, number, boolean, list of strings, table of strings; "" unless Ready
	Doc     string
	Default string // a TOML value; "" unless Ready or Fixed
	Allowed string // "" if every value of the type is allowed
	With    string // the settings under which it is read, "" if it is always read
	Status  Status
}

// entry is one row of the table of keys.
type entry struct {
	name   string
	doc    string // for Later and Moved: what to do instead
	rule   registry.Range
	status Status
	only   any             // the value of a Fixed key
	param  *registry.Param // the declaration, if a registered implementation declares the key
}

// The ranges by short names, for the tables of keys.
var (
	anything = registry.Any
	oneOf    = registry.OneOf
	eachOf   = registry.EachOf
	atLeast  = registry.AtLeast
	above    = registry.Above
	between  = registry.Between
	aboveTo  = registry.AboveTo
	orOff    = registry.OrUnset
)

func ready(name, doc string, r registry.Range) entry {
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

// laterSections are the planned tables without any implemented key.
var laterSections = []string{"env.tools", "env.webshop"}

// known returns the entry of a key in its generic form, without an [[env]] index.
func (s *Schema) known(name string) (entry, bool) {
	if e, ok := s.byName[name]; ok {
		return e, true
	}
	for _, at := range laterSections {
		if name == at || strings.HasPrefix(name, at+".") {
			return entry{name: name, status: Later, doc: "not implemented yet"}, true
		}
	}
	return entry{}, false
}

// section reports whether name is a table that holds known keys.
func (s *Schema) section(name string) bool {
	for _, e := range s.table {
		if strings.HasPrefix(e.name, name+".") {
			return true
		}
	}
	return false
}

// Keys returns every known key in the order of a written file.
func (s *Schema) Keys() []Key {
	def := s.Defaults()
	def.Env = []Env{DefaultEnv("maze")}
	def.Reward.Components = []Component{s.DefaultComponent("name")}
	keys := make([]Key, 0, len(s.table))
	for _, e := range s.table {
		k := Key{Name: e.name, Doc: e.doc, Allowed: e.rule.Allowed, Status: e.status}
		switch e.status {
		case Ready:
			v := def.field(instance(e.name, 0))
			k.Type = typeName(v.Type())
			k.Default = literal(v)
			if u := s.usesOf[e.name]; u != nil {
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
