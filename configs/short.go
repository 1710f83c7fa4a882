package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// usual are the keys that Short writes even with their defaults, if they have an effect: the ones that people change first.
var usual = []string{
	"model.path", "env.tasks", "env.val_tasks", "data.train_batch_size", "rollout.group_size", "rollout.max_new_tokens", "rollout.max_context_tokens",
	"actor.micro_batch_size", "actor.optim.lr", "trainer.experiment", "trainer.total_steps",
}

// Short writes the configuration as TOML with the usual keys and the keys that differ from their defaults, each with the
// comment that the preset's text has for it. Loading it gives the same configuration. Values that Load derives are
// not written.
func (c Config) Short(presets ...[]byte) ([]byte, error) {
	comments := commentsOf(presets)
	blank := c.Schema.Defaults()
	keep := map[string]bool{}
	for _, path := range c.allPaths() {
		derived := slices.ContainsFunc(c.Derived, func(d Derived) bool { return d.Key == path })
		name := generic(path)
		changed := literal(c.field(path)) != c.defaultOf(blank, path)
		always := name == "env.name" || name == components+"weight" // a table needs a key
		keep[path] = always || !derived && (changed || slices.Contains(usual, name) && c.Unmet(path) == "")
	}
	// A default of a table can depend on other keys, such as the format of [[env]]. The keys whose values differ after
	// loading are written too.
	const most = 4
	for range most {
		text := c.write(keep, comments)
		again, err := c.Schema.Load("the short form", text, nil)
		if err != nil {
			return nil, err
		}
		changed := false
		for _, d := range Diff(c, again) {
			changed = changed || !keep[d.Key]
			keep[d.Key] = true
		}
		if !changed {
			return text, nil
		}
	}
	return nil, fmt.Errorf("the short form of the configuration does not load as the same configuration; use the full form")
}

// allPaths returns the paths of all keys with a value, in the order of a written file.
func (c *Config) allPaths() []string {
	var out []string
	for _, e := range c.Schema.table {
		if e.status == Ready {
			out = append(out, c.paths(e.name)...)
		}
	}
	return out
}

// defaultOf returns the default of the key at path as TOML.
func (c *Config) defaultOf(blank Config, path string) string {
	name := generic(path)
	switch {
	case strings.HasPrefix(name, "env."):
		blank.Env = []Env{c.Schema.DefaultEnv("")}
	case strings.HasPrefix(name, components):
		called, _, _ := strings.Cut(strings.TrimPrefix(path, components), ".")
		p := c.Schema.DefaultComponent(called)
		p.Fn = called
		blank.Reward.Components = []Component{p}
		return literal(blank.field(path))
	}
	return literal(blank.field(instance(name, 0)))
}

// write writes the keys in keep.
func (c *Config) write(keep map[string]bool, comments map[string]string) []byte {
	type line struct{ text, comment string }
	var heads []string
	sections := map[string][]line{}
	for _, e := range c.Schema.table {
		if e.status != Ready {
			continue
		}
		for _, path := range c.paths(e.name) {
			if !keep[path] {
				continue
			}
			section := sectionOf(path) // env.0 for the first [[env]] table
			if !slices.Contains(heads, section) {
				heads = append(heads, section)
			}
			text := path[len(section)+1:] + " = " + literal(c.field(path))
			sections[section] = append(sections[section], line{text, cmp.Or(comments[c.ofTable(path)], comments[e.name])})
		}
	}
	var b strings.Builder
	b.WriteString("# The keys that one changes first. `openmanus config show FILE` prints every key with its documentation.\n")
	for _, section := range heads {
		width := 0
		for _, l := range sections[section] {
			if l.comment != "" {
				width = max(width, utf8.RuneCountInString(l.text))
			}
		}
		head := "[" + section + "]"
		if strings.HasPrefix(section, "env.") {
			head = "[[env]]"
		}
		b.WriteString("\n" + head + "\n")
		for _, l := range sections[section] {
			if l.comment == "" {
				b.WriteString(l.text + "\n")
				continue
			}
			fmt.Fprintf(&b, "%s%s  # %s\n", l.text, strings.Repeat(" ", width-utf8.RuneCountInString(l.text)), l.comment)
		}
	}
	return []byte(b.String())
}

// ofTable returns the path of a key with the name of its [[env]] table in place of the index: env.maze.tasks.
func (c *Config) ofTable(path string) string {
	for i, e := range c.Env {
		if leaf, ok := strings.CutPrefix(path, instance("env.", i)); ok {
			return "env." + e.Name + "." + leaf
		}
	}
	return path
}

// commentsOf returns the comments behind the keys of TOML texts, by the name of the key. The first text has precedence.
// Comments in an [[env]] table, which begins with its name, are also listed by the result of ofTable.
func commentsOf(texts [][]byte) map[string]string {
	out := map[string]string{}
	for _, text := range texts {
		section, table := "", ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "[") {
				section = strings.Trim(line, "[] ")
				continue
			}
			before, comment, ok := strings.Cut(line, " # ")
			key, value, isKey := strings.Cut(before, " = ")
			if key = strings.TrimSpace(key); key == "name" {
				table = strings.Trim(value, "\" ")
			}
			for _, name := range []string{section + "." + key, section + "." + table + "." + key} {
				if ok && isKey && out[name] == "" {
					out[name] = strings.TrimSpace(comment)
				}
			}
		}
	}
	return out
}
