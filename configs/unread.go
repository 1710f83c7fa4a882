package configs

import (
	"reflect"
	"slices"
	"strings"
)

// unread returns the paths of the keys that have no effect in c, in the order of the
// table of keys, and the missing conditions of each.
func (c *Config) unread() (paths []string, missing map[string]string) {
	missing = map[string]string{}
	for _, e := range c.Schema.table {
		if e.status != Ready {
			continue
		}
		for i, path := range c.paths(e.name) {
			if unmet := e.when.unmet(c, i); len(unmet) > 0 {
				paths = append(paths, path)
				missing[path] = strings.Join(unmet, " and ")
			}
		}
	}
	return paths, missing
}

// checkUses adds a fault for every unread key that the user set, and resets all
// unread keys to their defaults, since they are not part of the run.
//
// file is the configuration before the overrides. A key of the file is a fault
// only if it has no effect in the file alone, because an override may switch off
// the feature that it belongs to. A default value is never a fault: config show
// prints all defaults, and --set uses them to switch features off.
func (l *loader) checkUses(file *Config) {
	wrong := l.cfg.valueFaults()
	wrong = append(wrong, l.faults...)
	paths, missing := l.cfg.unread()
	_, missingInFile := file.unread()
	usual := func(path string) reflect.Value { return reflect.ValueOf(l.schema.byName[generic(path)].def) }
	fine := func(path string) bool { // the key is read, or has its default value
		_, unread := missing[path]
		return !unread || literal(l.cfg.field(path)) == literal(usual(path))
	}
	for _, set := range l.overrides {
		if len(set) > 0 && !slices.ContainsFunc(set, fine) && !explained(missing[set[0]], wrong) {
			l.source = setSource
			l.fault(set[0], unreadKey, missing[set[0]])
		}
	}
	for _, path := range paths {
		if explained(missing[path], wrong) {
			continue
		}
		_, unused := missingInFile[path]
		if l.inFile[path] && !l.bySet[path] && unused && !fine(path) && !l.faults.about(path) {
			l.source = l.name
			l.fault(path, unreadKey, missing[path])
		}
		l.cfg.store(path, func(dst reflect.Value) { dst.Set(usual(path)) })
	}
	l.dropComponents(file)
}

// dropComponents removes the reward components if algo.name does not use them.
// Components that the user set are a fault.
func (l *loader) dropComponents(file *Config) {
	if policyGradient.met(&l.cfg, 0) {
		return
	}
	noted := slices.ContainsFunc(l.faults, func(f Fault) bool { return strings.HasPrefix(f.Key, components) })
	switch {
	case noted:
	case len(l.cfg.Reward.Components) > len(file.Reward.Components):
		l.source = setSource
		l.fault("reward.components", unreadKey, policyGradient[0].with)
	case l.author == userFile && len(file.Reward.Components) > 0 && !policyGradient.met(file, 0):
		l.source = l.name
		l.fault("reward.components", unreadKey, policyGradient[0].with)
	}
	l.cfg.Reward.Components = nil
}

const unreadKey = "only used with %s" + UnreadAdvice

// UnreadAdvice is the end of the message about an unread key.
const UnreadAdvice = ": set that, or take it out"

// explained reports whether a condition names a key with an invalid value. A fault
// about the condition is then omitted, because a valid value may meet it.
func explained(condition string, wrong Faults) bool {
	return slices.ContainsFunc(wrong, func(f Fault) bool {
		name := generic(f.Key)
		return name != "" && strings.Contains(condition, strings.TrimPrefix(name, "env.")+" ")
	})
}

// Unread returns a fault for every unread key that the text sets, including those
// set to their default values. It returns nil if the text does not load.
func (s *Schema) Unread(text []byte) Faults {
	l := s.newLoader("", userFile)
	if err := l.file(text); err != nil || len(l.faults) > 0 {
		return nil
	}
	l.cfg.resolve()
	var fs Faults
	paths, missing := l.cfg.unread()
	for _, path := range paths {
		if l.inFile[path] {
			fs.add(path, unreadKey, missing[path])
		}
	}
	return fs
}
