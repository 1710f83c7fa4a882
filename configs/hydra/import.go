package hydra

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data/registry"
)

// Status is the result of importing a key.
type Status string

const (
	// Mapped keys have a counterpart here, which is set.
	Mapped Status = "mapped"
	// Ignored keys have no effect here, or had none in the original trainer.
	Ignored Status = "ignored"
	// Unsupported keys request something that openmanus does not do.
	Unsupported Status = "not supported"
	// Unknown keys exist in no known version of OpenManus-RL or verl.
	Unknown Status = "unknown"
	// Open keys have a value that the script computes while it runs.
	Open Status = "open"
)

// Row is the result of importing one key.
type Row struct {
	Key    string   `json:"key"`
	Value  string   `json:"value"`
	Status Status   `json:"status"`
	To     []string `json:"to,omitempty"` // "actor.optim.lr = 1e-06"
	Note   string   `json:"note,omitempty"`
	Source string   `json:"source,omitempty"`
	// Default is true if the command line does not give the key and
	// the original's default differs from ours.
	Default bool `json:"default,omitempty"`
}

// Result is an imported command line.
type Result struct {
	Rows   []Row
	Source string   // the trainer and version of the command line
	Why    string   // the reason for Source
	Words  []string // words that are not settings
	Others []string // other programs that the script starts; they are not imported
	TOML   []byte
	Faults error // the faults of TOML
}

// Doubtful counts the problems that make --strict fail.
func (r *Result) Doubtful() int {
	n := len(r.Words) + len(r.Others)
	for _, row := range r.Rows {
		if row.Status == Unsupported || row.Status == Unknown || row.Status == Open {
			n++
		}
	}
	return n
}

// Options control an import.
type Options struct {
	Schema   *configs.Schema
	From     string // the source, for the first line of the result
	Name     string // the file of the result, named in Faults; empty: import
	Home     string // replaces ~ at the start of paths; empty: ~ stays
	Defaults bool   // write the original's defaults for keys that are not given
}

// Import converts a command line to a configuration.
func Import(c Command, o Options) Result {
	im := &importer{given: map[string]Override{}, out: map[string]setting{}, byKey: map[string]*Row{}, schema: o.Schema, ours: o.Schema.Keys()}
	im.home = strings.TrimRight(o.Home, "/")
	for _, ov := range branches(c.Overrides) {
		if _, again := im.given[ov.Key]; !again {
			im.order = append(im.order, ov.Key)
		}
		im.given[ov.Key] = ov
	}
	why := im.identify(c.Program)
	im.take(o.Defaults)
	im.finish()
	im.dropUsual()
	im.dropUnread(c, o)
	r := Result{Source: im.of, Why: why, Words: c.Faults, Others: c.Others, TOML: im.write(c, o)}
	for _, f := range c.Flags {
		r.Rows = append(r.Rows, flagRow(f))
	}
	for _, key := range im.order {
		r.Rows = append(r.Rows, im.report(im.byKey[key]))
	}
	for _, d := range im.defaults {
		if row := im.report(d); len(row.To) > 0 {
			r.Rows = append(r.Rows, row)
		}
	}
	_, r.Faults = o.Schema.Load(cmp.Or(o.Name, "import"), r.TOML, nil)
	return r
}

// setting is the value of one of our keys and the row that set it.
type setting struct {
	value any
	from  *Row
}

type importer struct {
	schema   *configs.Schema
	of       string // Source of the result
	trainer  trainer
	other    trainer
	home     string
	ours     []configs.Key
	given    map[string]Override
	order    []string // keys as given, each once
	out      map[string]setting
	byKey    map[string]*Row
	defaults []*Row
	steps    int // interpolations so far
}

// maxSteps bounds the number of interpolations. Each setting that refers twice to
// another setting can double this number.
const maxSteps = 100000

// take imports the keys of the table, then reports the given keys that the table lacks.
func (im *importer) take(defaults bool) {
	for _, entry := range im.trainer.table {
		for _, key := range spread(entry.key) {
			if all, ok := strings.CutSuffix(key, ".*"); ok {
				for _, given := range im.order {
					if strings.HasPrefix(given, all+".") && im.byKey[given] == nil {
						im.apply(entry, given)
					}
				}
				continue
			}
			if _, ok := im.given[key]; ok {
				im.apply(entry, key)
				continue
			}
			if def := im.usual(entry, key); def != none && defaults {
				im.applyDefault(entry, key, def)
			}
		}
	}
	for _, key := range im.order {
		if im.byKey[key] == nil {
			im.unknown(key)
		}
	}
}

// spread expands a.{b,c}.d to a.b.d and a.c.d.
func spread(key string) []string {
	before, rest, ok := strings.Cut(key, "{")
	if !ok {
		return []string{key}
	}
	inner, after, _ := strings.Cut(rest, "}")
	var out []string
	for part := range strings.SplitSeq(inner, ",") {
		for _, tail := range spread(after) {
			out = append(out, before+part+tail)
		}
	}
	return out
}

func (im *importer) apply(entry row, key string) {
	o := im.given[key]
	r := &Row{Key: key, Value: o.Text, Status: Mapped, Source: entry.source, Note: im.noteOf(entry)}
	im.byKey[key] = r
	switch {
	case o.Delete:
		r.Status, r.Note = Ignored, "removed by ~: the default applies"
		return
	case len(o.Missing) > 0:
		r.open(o.Missing)
		return
	}
	v, missing := im.resolve(o.Value, 0)
	if len(missing) > 0 {
		r.open(missing)
		return
	}
	im.convert(entry, r, v)
}

// addNote appends to the note of a row.
func (r *Row) addNote(more string) {
	if strings.Contains(r.Note, more) {
		return
	}
	if r.Note != "" {
		r.Note += "; "
	}
	r.Note += more
}

func (r *Row) open(missing []string) {
	missing = slices.Clone(missing)
	slices.Sort(missing)
	for i, m := range missing {
		missing[i] = clip(m)
	}
	r.Status = Open
	r.Note = "the value of " + strings.Join(slices.Compact(missing), ", ") + " is known only when the script runs: give NAME=value or " + r.Key + "=value after the file"
}

func (im *importer) applyDefault(entry row, key, def string) {
	v, err := ParseValue(def)
	if err != nil {
		panic("hydra: invalid default of " + key + ": " + err.Error())
	}
	r := &Row{Key: key, Value: def, Status: Mapped, Source: entry.source, Note: im.noteOf(entry), Default: true}
	im.defaults = append(im.defaults, r)
	im.convert(entry, r, v)
}

func (im *importer) convert(entry row, r *Row, v any) {
	take := entry.take
	if take == nil {
		take = unchanged
	}
	switch x := take(im, r, v).(type) {
	case nil:
	case several:
		for _, s := range x {
			im.put(r, s.key, s.value)
		}
	default:
		for key := range strings.FieldsSeq(entry.target(r.Key)) {
			im.put(r, key, x)
		}
	}
}

// put sets one of our keys. An invalid value makes the row unsupported.
func (im *importer) put(r *Row, key string, v any) {
	k, ok := im.key(key)
	if ok {
		v = fit(k, v)
	}
	if slices.Contains(paths, key) {
		v = im.atHome(v)
	}
	if msg := im.schema.CheckValue(key, v); msg != "" {
		r.Status, r.Note = Unsupported, key+": "+msg
		return
	}
	if ok && k.Status == configs.Fixed {
		r.Status, r.Note = Ignored, "always the case: "+k.Doc
		return
	}
	im.out[key] = setting{v, r}
}

func (im *importer) key(name string) (configs.Key, bool) {
	i := slices.IndexFunc(im.ours, func(k configs.Key) bool { return k.Name == name })
	if i < 0 {
		return configs.Key{}, false
	}
	return im.ours[i], true
}

// fit converts a value to the key's type if that does not change it.
func fit(k configs.Key, v any) any {
	f, float := v.(float64)
	_, text := v.(string)
	_, whole := v.(int64)
	_, boolean := v.(bool)
	switch {
	case k.Type == "integer" && float && f == float64(int64(f)):
		return int64(f)
	case k.Type == "string" && (float || whole || boolean):
		return plain(v)
	case k.Type == "list of strings" && text:
		return []any{v}
	}
	return v
}

// resolve replaces each ${other.key} by the value of that key.
func (im *importer) resolve(v any, depth int) (any, []string) {
	switch v := v.(type) {
	case []any:
		out, missing := make([]any, len(v)), []string(nil)
		for i := range v {
			var m []string
			out[i], m = im.resolve(v[i], depth)
			missing = append(missing, m...)
		}
		return out, missing
	case map[string]any:
		out, missing := make(map[string]any, len(v)), []string(nil)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			x, m := im.resolve(v[k], depth)
			out[k] = x
			missing = append(missing, m...)
		}
		return out, missing
	case string:
		return im.interpolate(v, depth)
	}
	return v, nil
}

func (im *importer) interpolate(s string, depth int) (any, []string) {
	before, rest, ok := strings.Cut(s, "${")
	if !ok {
		return s, nil
	}
	key, after, ok := strings.Cut(rest, "}")
	if im.steps++; !ok || depth > maxDepth || im.steps > maxSteps || len(s) > maxText {
		return s, []string{s}
	}
	o, ok := im.given[key]
	if !ok || len(o.Missing) > 0 {
		return s, []string{"${" + key + "}"}
	}
	v, missing := im.resolve(o.Value, depth+1)
	if len(missing) > 0 {
		return s, missing
	}
	if before == "" && after == "" {
		return v, nil
	}
	return im.interpolate(before+plain(v)+after, depth+1)
}

// unknown reports an unknown key, with the nearest known one.
func (im *importer) unknown(key string) {
	r := &Row{Key: key, Value: im.given[key].Text, Status: Unknown, Note: "no such key"}
	im.byKey[key] = r
	if im.other.has(key) {
		r.unsupported("it is a key of " + im.other.name + ", and the command line is read as one of " + im.trainer.name + ": remove the key, or import the keys of the two trainers separately")
		return
	}
	var all []string
	for _, entry := range im.trainer.table {
		for _, k := range spread(entry.key) {
			all = append(all, strings.TrimSuffix(k, ".*"))
		}
	}
	near := registry.Nearest(key, all)
	if i := slices.IndexFunc(all, func(k string) bool { return lastName(k) == lastName(key) }); near == "" && i >= 0 {
		near = all[i]
	}
	if near != "" {
		r.Note += "; did you mean " + near + "?"
	}
}

// val returns the value that the command line gives a key, or the argument other if the key is not given.
func (im *importer) val(key string, other any) any {
	o, ok := im.given[key]
	if !ok || o.Delete || len(o.Missing) > 0 {
		return other
	}
	if v, missing := im.resolve(o.Value, 0); len(missing) == 0 && v != nil {
		return v
	}
	return other
}

// drop removes the settings that match and adds the reason to their rows.
func (im *importer) drop(why string, match func(key string) bool) {
	for _, key := range slices.Sorted(maps.Keys(im.out)) {
		if !match(key) {
			continue
		}
		r := im.out[key].from
		delete(im.out, key)
		if r != nil && len(im.report(r).To) == 0 {
			r.ignored(why)
		}
	}
}

// dropUsual removes the original's defaults that equal ours.
func (im *importer) dropUsual() {
	for key, s := range im.out {
		k, ok := im.key(key)
		lit := configs.Literal(s.value)
		if ok && s.from != nil && s.from.Default && !strings.HasPrefix(key, "env.") && (k.Default == lit || k.Default == lit+".0") {
			delete(im.out, key)
		}
	}
}

// dropUnread removes settings that have no effect in the configuration. The note of
// each row names the settings that would give the key an effect.
func (im *importer) dropUnread(c Command, o Options) {
	for _, f := range im.schema.Unread(im.write(c, o)) {
		name := f.Key
		if rest, ok := strings.CutPrefix(name, "env.0."); ok {
			name = "env." + rest
		}
		im.drop("has no effect here: "+strings.TrimSuffix(f.Msg, configs.UnreadAdvice), func(key string) bool { return key == name })
	}
}

// report returns a row with the settings made from its value.
func (im *importer) report(r *Row) Row {
	out := *r
	for _, key := range slices.Sorted(maps.Keys(im.out)) {
		if s := im.out[key]; s.from == r {
			out.To = append(out.To, key+" = "+configs.Literal(s.value))
		}
	}
	if out.Status == Mapped && len(out.To) == 0 && !r.Default {
		out.Status = Ignored
		if out.Note == "" || out.Note == readNowhere {
			out.Note = "overridden by another setting of the command line"
		}
	}
	if maybe := im.given[r.Key].Maybe; len(maybe) > 0 && !r.Default && out.Status == Mapped {
		out.addNote("$" + strings.Join(maybe, ", $") + " has its value from outside the script's branches, but a branch may change it: then give NAME=value after the file")
	}
	return out
}

// flagRow reports the result for a flag of Hydra. Configuration files are not read:
// the table of keys has the defaults from the trainers' files.
func flagRow(f Override) Row {
	r := Row{Key: f.Key, Value: f.Text, Status: Open, Source: "Hydra"}
	value := strings.Trim(f.Text, `'"`)
	switch f.Key {
	case "--config-name", "-cn":
		name := strings.TrimSuffix(strings.TrimSuffix(value, ".yaml"), ".yml")
		if name == "ppo_trainer" || name == "sft_trainer" {
			r.ignored("a file of the original, whose values are known")
			return r
		}
		r.Note = "the configuration file is not read: give its settings as key=value after the script"
	case "--config-path", "-cp", "--config-dir", "-cd":
		if value == "config" || value == "./config" {
			r.ignored("the folder of the original's files")
			return r
		}
		r.Note = "configuration files are not read: give their settings as key=value after the script"
	default:
		r.ignored("a flag of Hydra that sets no key")
	}
	return r
}
