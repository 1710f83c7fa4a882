package configs

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// override applies one --set argument, "key=value". The value is TOML; a bare
// word is a string. An [[env]] key names the table by its position, label or
// environment (env.0.max_turns, env.maze.max_turns), or applies to all tables
// (env.max_turns).
func (l *loader) override(arg string) {
	key, raw, ok := strings.Cut(arg, "=")
	key, raw = strings.TrimSpace(key), strings.TrimSpace(raw)
	if !ok || key == "" {
		l.fault("", "%q has no value; write --set key=value", arg)
		return
	}
	paths, msg := l.paths(key)
	if msg != "" {
		l.fault(key, "%s", msg)
		return
	}
	var found []string
	for _, path := range paths {
		l.bySet[path] = true
		l.set(path, l.value(path, raw))
		if e, ok := l.schema.known(generic(path)); ok && e.status == Ready {
			found = append(found, path)
		}
	}
	l.overrides = append(l.overrides, found)
}

// paths turns the key of an override into paths of values.
func (l *loader) paths(key string) ([]string, string) {
	if rest, ok := strings.CutPrefix(key, components); ok {
		name, _, ok := strings.Cut(rest, ".")
		if msg := componentName(name); !ok || msg != "" {
			return nil, "write " + components + "NAME.weight=1, for example"
		}
		l.cfg.component(name)
		return []string{key}, ""
	}
	rest, ok := strings.CutPrefix(key, "env.")
	if !ok {
		return []string{key}, ""
	}
	if len(l.cfg.Env) == 0 {
		return nil, "there is no [[env]] table to change"
	}
	which, leaf, named := strings.Cut(rest, ".")
	found, names := l.named(which, leaf)
	if _, ok := l.schema.byName["env."+leaf]; ok && len(found) > 0 {
		return found, "" // an environment may have the name of a section
	}
	if _, ok := l.schema.known(key); ok || !named {
		var all []string
		for i := range l.cfg.Env {
			all = append(all, instance(key, i))
		}
		return all, ""
	}
	if i, err := strconv.Atoi(which); err == nil {
		if i < 0 || i >= len(l.cfg.Env) {
			return nil, fmt.Sprintf("there is no [[env]] table %d; they are numbered 0 to %d", i, len(l.cfg.Env)-1)
		}
		return []string{key}, ""
	}
	if len(found) == 0 {
		return nil, fmt.Sprintf("no [[env]] table is named %q; use one of %s", which, strings.Join(names, ", "))
	}
	return found, ""
}

// named returns the paths of a key in the [[env]] tables with the given label or
// environment, and the names of all tables.
func (l *loader) named(env, leaf string) (found, names []string) {
	for i, e := range l.cfg.Env {
		names = append(names, e.Called())
		if e.Called() == env || e.Name == env {
			found = append(found, instance("env."+leaf, i))
		}
	}
	return found, names
}

// value parses the text of an override. For string keys, text that looks like a
// number or a date stays text.
func (l *loader) value(path, raw string) any {
	var doc map[string]any
	_, err := toml.Decode("x = "+raw+"\n", &doc)
	v, ok := doc["x"]
	if err != nil || !ok || len(doc) != 1 {
		return raw
	}
	if _, isText := v.(string); isText {
		return v
	}
	if e, ok := l.schema.known(generic(path)); ok && e.status == Ready {
		t := l.cfg.field(path).Type()
		_, isList := v.([]any)
		if t.Kind() == reflect.String || t.Kind() == reflect.Slice && !isList {
			return raw
		}
	}
	return v
}

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
