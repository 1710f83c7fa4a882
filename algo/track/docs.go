package track

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Document is docs/metrics.md: Table for people, by name.
func Document() string {
	var b strings.Builder
	b.WriteString(`# Metrics

A run writes a line a step to ` + "`metrics.jsonl`" + ` in its folder: ` + "`step`" + ` and the metrics below by name. Lines before the first step
have ` + "`step`" + ` 0 and an axis of their own: steps of a warm start are drawn over ` + "`sft/step`" + `, those of a fresh model's reading over
` + "`read/step`" + ` (about 50 lines, each the mean of the steps since the one before), and a validation before the first step is at 0.
JSON has no NaN and no infinity: such a value is null, and the line then has ` + "`nonfinite`" + `, their number. A metric without
a value is absent.

The names are verl's and OpenManus-RL's where they have one, so that dashboards carry over, but for those at the end of this
page. Where those take a window over
the padded row, these take the loss mask, 1 exactly on the tokens the model sampled. ` + "`{a,b}`" + ` stands for each of them, ` + "`*`" + ` for
anything without a slash.

This page is generated from the table in ` + "`algo/track`" + ` (` + "`go test ./algo/track -update`" + `); a test trains and compares: a metric
that is not here cannot be written, and one that is here is.

| metric | meaning | in |
| --- | --- | --- |
`)
	table := slices.Clone(Table)
	slices.SortFunc(table, func(a, b Definition) int { return cmp.Compare(a.Names, b.Names) })
	for _, d := range table {
		when := d.When
		if when == "" {
			when = "training steps"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Names, strings.ReplaceAll(d.Meaning, "|", "\\|"), when)
	}
	b.WriteString("\n## Names that did not carry over\n\n| OpenManus-RL, verl | here |\n| --- | --- |\n")
	for _, r := range Renamed {
		here := r.Why
		if r.Here != "" {
			here = "`" + r.Here + "`"
			if r.Why != "" {
				here += ": " + r.Why
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.Theirs, here)
	}
	return b.String()
}

// Elsewhere names, for patterns of Table as they are expanded, the test that
// sees them written, such as "algo.TestFaults": those that need a failure which
// no whole run of the table's own test meets.
var Elsewhere = map[string]string{}

// SeenBy adds patterns to Elsewhere. Like Define it is called while the program
// starts.
func SeenBy(test string, patterns ...string) struct{} {
	for _, p := range patterns {
		for _, name := range expand(p) {
			Elsewhere[name] = test
		}
	}
	return struct{}{}
}

// Check compares names of metrics that runs wrote with Table: those that it
// does not have, and the patterns of it that match none of them and that no
// other test sees.
func Check(written []string) (unknown, unwritten []string) {
	for _, name := range written {
		if _, ok := Describe(name); !ok {
			unknown = append(unknown, name)
		}
	}
	for _, d := range Table {
		for _, pattern := range expand(d.Names) {
			if Elsewhere[pattern] == "" && !slices.ContainsFunc(written, func(name string) bool { return matches(pattern, name) }) {
				unwritten = append(unwritten, pattern)
			}
		}
	}
	return unknown, unwritten
}
