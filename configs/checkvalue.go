package configs

import "strings"

// CheckValue returns the fault of one value of a key, independent of other keys,
// or "". v has a type of the TOML decoder: string, int64, float64, bool or
// []any. Keys of an [[env]] table are written as env.name.
func (s *Schema) CheckValue(key string, v any) string {
	l := s.newLoader("", written)
	l.cfg.Env = []Env{s.DefaultEnv("")}
	path := key
	if rest, ok := strings.CutPrefix(key, components); ok {
		name, _, _ := strings.Cut(rest, ".")
		if msg := componentName(name); msg != "" {
			return msg
		}
		l.cfg.component(name)
	} else {
		path = instance(key, 0)
	}
	l.set(path, v)
	if len(l.faults) > 0 {
		return l.faults[0].Msg
	}
	if e, ok := s.known(generic(path)); ok && e.status == Ready {
		return e.rule.Problem(l.cfg.field(path).Interface())
	}
	return ""
}
