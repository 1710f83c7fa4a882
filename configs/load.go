package configs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxFile bounds a configuration file; real ones have a few kilobytes.
const maxFile = 1 << 20

const setSource = "--set"

// Load reads a configuration: the defaults, then text, then the overrides in
// sets, each "key=value". Messages refer to the text by the string name. The
// error has type Faults and contains all faults.
func (s *Schema) Load(name string, text []byte, sets []string) (Config, error) {
	return s.newLoader(name, userFile).read(text, sets)
}

// LoadSaved reads the saved configuration of a run. It accepts keys that have no
// effect, since an earlier version may have written them.
func (s *Schema) LoadSaved(name string, text []byte) (Config, error) {
	return s.newLoader(name, written).read(text, nil)
}

func (l *loader) read(text []byte, sets []string) (Config, error) {
	if err := l.file(text); err != nil {
		return Config{}, err
	}
	return l.finish(sets)
}

// finish applies the overrides and the derived defaults, and returns the
// configuration or all of its faults.
func (l *loader) finish(sets []string) (Config, error) {
	file := l.cfg.Clone()
	file.resolve()
	l.source = setSource
	for _, s := range sets {
		l.override(s)
	}
	// The address is usually given by train --serve. The keys of a file without [[env]] tables are judged with it.
	file.Serve.Listen = cmp.Or(file.Serve.Listen, l.cfg.Serve.Listen)
	l.cfg.resolve()
	l.derive()
	l.checkUses(&file)
	for _, f := range l.cfg.faults() {
		if l.faults.about(f.Key) {
			continue
		}
		l.source = l.name
		if l.bySet[f.Key] {
			l.source = setSource
		}
		l.fault(f.Key, "%s", f.Msg)
	}
	if len(l.faults) > 0 {
		// Faults are listed in the order of the file, then of the overrides.
		slices.SortStableFunc(l.faults, func(a, b Fault) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Line, b.Line))
		})
		return Config{}, l.faults
	}
	return l.cfg, nil
}

// resolve sets the keys that [[env]] tables inherit from action_format and
// [agent], and the functions of components without the key fn.
func (c *Config) resolve() {
	for i := range c.Reward.Components {
		if p := &c.Reward.Components[i]; p.Fn == "" {
			p.Fn = p.Name
		}
	}
	c.ResolveKinds()
	for i := range c.Env {
		e := &c.Env[i]
		if e.Kind == KindPrompt { // one reply, and the whole reply is the answer
			continue
		}
		if e.Format == "" && c.Schema.format(e.ActionFormat).Calls {
			e.Format = e.ActionFormat
		}
		e.Format = cmp.Or(e.Format, c.Agent.Format)
		if e.HistoryLength == -1 && c.Schema.WritesPrompts(e.Format) {
			e.HistoryLength = c.Agent.HistoryLength
		}
		if e.MemoryFile == "" && e.Format == "staged" {
			e.MemoryFile = c.Agent.MemoryFile
		}
		e.MaxTurns = cmp.Or(e.MaxTurns, c.Agent.MaxTurns)
	}
}

type loader struct {
	schema    *Schema
	name      string
	source    string // the source of the current values: name, or --set
	author    author
	cfg       Config
	lines     lineIndex
	faults    Faults
	inFile    map[string]bool // paths set by a user's file
	bySet     map[string]bool // paths set by --set
	overrides [][]string      // for each --set, the paths that it sets
}

// author is the origin of a configuration text.
type author bool

const (
	userFile author = true  // keys without effect are errors
	written  author = false // a preset or a saved configuration: keys without effect are accepted
)

func (s *Schema) newLoader(name string, a author) *loader {
	return &loader{schema: s, name: name, source: name, author: a, cfg: s.Defaults(), inFile: map[string]bool{}, bySet: map[string]bool{}}
}

// file decodes text into cfg. It returns an error for invalid TOML; other
// problems become faults.
func (l *loader) file(text []byte) error {
	if len(text) > maxFile {
		return Faults{{Source: l.name, Msg: fmt.Sprintf("the configuration has %d bytes; at most %d are allowed", len(text), maxFile)}}
	}
	var doc map[string]any
	if _, err := toml.Decode(string(text), &doc); err != nil {
		if p, ok := errors.AsType[toml.ParseError](err); ok {
			return Faults{{Source: l.name, Line: p.Position.Line, Msg: "not TOML: " + p.Message}}
		}
		return Faults{{Source: l.name, Msg: "not TOML: " + err.Error()}}
	}
	l.lines = indexLines(string(text))
	env, hasEnv := doc["env"]
	delete(doc, "env")
	l.walk("", doc)
	if hasEnv {
		l.envs(env)
	}
	return nil
}

// envTable appends the [[env]] tables of text, which holds only such tables.
func (l *loader) envTable(text []byte) error {
	var doc map[string]any
	if _, err := toml.Decode(string(text), &doc); err != nil {
		return Faults{{Source: l.name, Msg: "not TOML: " + err.Error()}}
	}
	own := l.schema.newLoader(l.name, l.author)
	own.cfg.Env = nil
	own.envs(doc["env"])
	l.cfg.Env = append(l.cfg.Env, own.cfg.Env...)
	l.faults = append(l.faults, own.faults...)
	return nil
}

// envs reads the [[env]] tables, which may also be written as a list of inline
// tables.
func (l *loader) envs(v any) {
	tables, ok := v.([]map[string]any)
	list, inline := v.([]any)
	for _, x := range list {
		t, isTable := x.(map[string]any)
		tables, inline = append(tables, t), inline && isTable
	}
	if !ok && !inline {
		l.fault("env", "environments are a list of tables: write [[env]], once for every environment")
		return
	}
	for _, t := range tables {
		l.cfg.Env = append(l.cfg.Env, l.schema.DefaultEnv(""))
		l.walk("env."+strconv.Itoa(len(l.cfg.Env)-1), t)
	}
}

func (l *loader) walk(at string, doc map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(doc)) {
		path := join(at, k)
		if at+"." == components {
			l.component(path, k, doc[k])
			continue
		}
		if sub, ok := doc[k].(map[string]any); ok && l.schema.section(generic(path)) {
			l.walk(path, sub)
			continue
		}
		l.set(path, doc[k])
	}
}

// component reads one [reward.components.NAME] table.
func (l *loader) component(path, name string, v any) {
	table, ok := v.(map[string]any)
	if !ok {
		l.fault(path, "%s is not a table: write [%sNAME]", describe(v), components)
		return
	}
	if msg := componentName(name); msg != "" {
		l.fault(path, "%s", msg)
		return
	}
	l.cfg.component(name)
	l.walk(path, table)
}

// set stores one value, or adds a fault.
func (l *loader) set(path string, v any) {
	name := generic(path)
	e, ok := l.schema.known(name)
	switch {
	case !ok && l.schema.section(name):
		l.fault(path, "%s is not a section: write [%s]", describe(v), name)
	case !ok:
		msg := "unknown key"
		if s := l.schema.suggestKey(name); s != "" {
			msg += fmt.Sprintf("; did you mean %s?", s)
		}
		l.fault(path, "%s", msg)
	case e.status == Later:
		l.fault(path, "not implemented yet: take it out")
	case e.status == Moved:
		l.fault(path, "this key has another place here: %s", e.doc)
	case e.status == Fixed:
		if !sameValue(v, e.def) {
			l.fault(path, "%s is not implemented yet; allowed now: %s", describe(v), describe(e.def))
		}
	case strings.HasPrefix(name, components) && path == name:
		l.fault(path, "the component has no name: write [%sNAME]", components)
	default:
		l.cfg.store(path, func(dst reflect.Value) {
			if msg := assign(dst, v); msg != "" {
				l.fault(path, "%s", msg)
			}
		})
		if l.source == l.name && l.author == userFile {
			l.inFile[path] = true
		}
	}
}

// fault records a fault of key with its line.
func (l *loader) fault(key, format string, args ...any) {
	f := Fault{Source: l.source, Key: key, Msg: fmt.Sprintf(format, args...)}
	if l.source == l.name && key != "" {
		f.Line = l.lines.of(key)
	}
	l.faults = append(l.faults, f)
}

// rank puts faults with a line first, then faults of --set, then all others.
func rank(f Fault) int {
	switch {
	case f.Line > 0:
		return 0
	case f.Source == setSource:
		return 1
	}
	return 2
}
