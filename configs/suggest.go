package configs

import (
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// suggestKey returns the most likely intended key for an unknown one: a key with a
// similar name, one with the same last name in another section, or a section.
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
	var sections []string
	for _, n := range names {
		for i, r := range n {
			if r == '.' {
				sections = append(sections, n[:i])
			}
		}
	}
	if n := registry.Nearest(key, sections); n != "" && !strings.HasPrefix(key, n+".") {
		return "[" + n + "]"
	}
	return ""
}
