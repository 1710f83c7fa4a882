package track

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// Console writes a line a step with chosen metrics, in columns.
type Console struct {
	w      io.Writer
	keys   []string
	widths map[string]int // of the values printed so far
}

// NewConsole writes to w the metrics that keys name, in the order of keys. A key
// may be a pattern, such as "val/*/success_rate"; no keys means every metric,
// one below the other. It does not own w.
func NewConsole(w io.Writer, keys ...string) (*Console, error) {
	for _, k := range keys {
		if _, err := path.Match(k, ""); err != nil {
			return nil, fmt.Errorf("console metrics: %q: %w", k, err)
		}
	}
	return &Console{w: w, keys: keys, widths: map[string]int{}}, nil
}

// Write prints a step. A step that has none of the chosen metrics prints
// nothing.
func (c *Console) Write(step int, m Metrics) error {
	text := c.line(step, m)
	if len(c.keys) == 0 {
		text = block(step, m)
	}
	if text == "" {
		return nil
	}
	if _, err := io.WriteString(c.w, text); err != nil {
		return fmt.Errorf("print metrics: %w", err)
	}
	return nil
}

// line puts the chosen metrics side by side. A column is as wide as the widest
// value it has had, so that the lines of a long run stay under one another.
func (c *Console) line(step int, m Metrics) string {
	var b strings.Builder
	for _, name := range c.chosen(m) {
		value := format(m[name])
		c.widths[name] = max(c.widths[name], len(value))
		fmt.Fprintf(&b, "  %s %-*s", name, c.widths[name], value)
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("step %5d%s\n", step, strings.TrimRight(b.String(), " "))
}

// chosen returns the names in m that the keys match, each once.
func (c *Console) chosen(m Metrics) []string {
	names := slices.Sorted(maps.Keys(m))
	var out []string
	for _, key := range c.keys {
		for _, name := range names {
			if ok, _ := path.Match(key, name); ok && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// block puts all metrics below one another.
func block(step int, m Metrics) string {
	width := 0
	for name := range m {
		width = max(width, len(name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "step %d\n", step)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, name, format(m[name]))
	}
	return b.String()
}

// format prints six digits: three are too few for a learning rate or a KL.
func format(v float64) string { return fmt.Sprintf("%.6g", v) }

// Offset returns 0: a console keeps nothing.
func (c *Console) Offset() (int64, error) { return 0, nil }

// Close does nothing.
func (c *Console) Close() error { return nil }
