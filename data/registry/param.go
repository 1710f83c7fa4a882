package registry

import "slices"

// Entry declares one registered implementation.
type Entry struct {
	Name    string
	Aliases []string
	AliasOf string // the name of the implementation if Name is an alias; set by Entries
	Doc     string // one line
	Params  []Param
	// Check returns the key of a parameter that does not fit the other parameters, and
	// the reason, or two empty strings. It is nil if every combination of allowed
	// values is valid.
	Check func(v Values) (key, problem string)
}

// Has reports whether the entry declares a parameter.
func (e Entry) Has(key string) bool {
	return slices.ContainsFunc(e.Params, func(p Param) bool { return p.Key == key })
}

// Param declares a parameter: a key of the configuration section that chooses
// the implementation.
type Param struct {
	Key     string
	Default any // a Value, which determines the type of the parameter
	Doc     string
	Range   Range
}

// Values holds the values of parameters by key. A parameter that is missing
// has its default.
type Values map[string]any

// Value lists the types of parameters.
type Value interface {
	string | bool | int | float64 | []string
}

// Typed is a Param whose values are of type T.
type Typed[T Value] struct{ Param }

// NewParam declares a parameter. Entries with a common key share one Typed value.
func NewParam[T Value](key string, def T, doc string, allowed Range) Typed[T] {
	return Typed[T]{Param{Key: key, Default: def, Doc: doc, Range: allowed}}
}

// WithDoc returns the parameter with another line of documentation, for an
// implementation in which the key has another meaning.
func (p Typed[T]) WithDoc(doc string) Param {
	p.Doc = doc
	return p.Param
}

// In returns the parameter's value in v, or its default. It panics if v holds
// a value of another type.
func (p Typed[T]) In(v Values) T {
	if x, ok := v[p.Key]; ok {
		return x.(T)
	}
	return p.Default.(T)
}
