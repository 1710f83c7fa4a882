package configs

import (
	"reflect"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// Status states whether this version implements a key.
type Status string

const (
	// Ready keys work.
	Ready Status = "ready"
	// Fixed keys accept only their one value.
	Fixed Status = "fixed"
	// Later keys are specified but not implemented; setting one is an error.
	Later Status = "not implemented yet"
	// Moved keys have another name here; setting one is an error with that name.
	Moved Status = "moved"
)

// Key is one key of the configuration, for people and for documentation.
type Key struct {
	Name    string // "actor.optim.lr"; keys of [[env]] tables are "env.name"
	Type    string // string, integer, number, boolean, list of strings, table of strings; "" unless Ready
	Doc     string
	Default string // a TOML value; "" unless Ready or Fixed
	Allowed string // "" if every value of the type is allowed
	With    string // the setting that it needs to have an effect, or ""
	Status  Status
}

// entry is one row of the table of keys.
type entry struct {
	name   string
	def    any    // the default of a Ready key, in the type of its field; the value of a Fixed key
	doc    string // the documentation; for Moved the replacement
	rule   registry.Range
	when   use // the conditions under which a Ready key is read
	status Status
	param  bool // a registered implementation declares the key
}

// Short names of the ranges, for the tables of keys.
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

// ready declares a key. A nil default is an empty list or table.
func ready(name string, def any, doc string, r registry.Range, when ...use) entry {
	return entry{name: name, def: def, doc: doc, rule: r, when: use{}.and(when...), status: Ready}
}

func fixed(name string, only any, doc string) entry {
	return entry{name: name, def: only, doc: doc, status: Fixed}
}

func moved(name, instead string) entry {
	return entry{name: name, doc: instead, status: Moved}
}

func later(name string) entry {
	return entry{name: name, doc: "not implemented yet", status: Later}
}

// under adds a condition to all keys of a section.
func under(when use, keys ...entry) []entry {
	for i, k := range keys {
		if k.status == Ready {
			keys[i].when = when.and(k.when)
		}
	}
	return keys
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
			return later(name), true
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
	keys := make([]Key, len(s.table))
	for i, e := range s.table {
		k := Key{Name: e.name, Doc: e.doc, Allowed: e.rule.Allowed, Status: e.status}
		if e.def != nil && e.name != "env.name" {
			k.Default = Literal(e.def)
		}
		if e.status == Ready {
			k.Type = typeName(reflect.TypeOf(e.def))
		}
		if n := len(e.when); n > 0 {
			k.With = e.when[n-1].with
		}
		keys[i] = k
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
