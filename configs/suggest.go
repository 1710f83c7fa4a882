package configs

import (
	"slices"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// suggestKey returns the known key that an unknown one most likely meant: the
// same last name in another section, or a name a few letters away, which may
// be that of a section.
func (s *Schema) suggestKey(key string) string {
	var names []string
	for _, e := range s.table {
		if e.status == Ready {
			names = append(names, e.name)
		}
	}
	if n := registry.Nearest(key, names); n != "" {
		return n
	}
	leaf := key[strings.LastIndexByte(key, '.')+1:]
	for _, n := range names {
		if n[strings.LastIndexByte(n, '.')+1:] == leaf {
			return n
		}
	}
	if n := registry.Nearest(key, s.sectionNames()); n != "" && !strings.HasPrefix(key, n+".") {
		return "[" + n + "]"
	}
	return ""
}

// sectionNames returns the sections in the order of their keys.
func (s *Schema) sectionNames() []string {
	var names []string
	for _, e := range s.table {
		for at := sectionOf(e.name); e.status == Ready; at = sectionOf(at) {
			if !slices.Contains(names, at) {
				names = append(names, at)
			}
			if !strings.Contains(at, ".") {
				break
			}
		}
	}
	return names
}
