package docs

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/data/registry"
)

var update = flag.Bool("update", false, "rewrite the tables of algorithms.md")

// TestAlgorithmTables checks that the tables of algorithms.md have the names of the
// registries, aliases included, and the parameters that each of them declares.
func TestAlgorithmTables(t *testing.T) {
	const path = "algorithms.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	losses := slices.DeleteFunc(loss.Policies.Entries(), func(e registry.Entry) bool { return e.Name == loss.Bypass })
	var kls []registry.Entry
	for _, e := range kl.Estimators.Entries() {
		kls = append(kls, e, registry.Entry{Name: e.Name + "+"})
	}
	kls = append(kls, registry.Entry{Name: kl.Full})
	page := string(text)
	for _, table := range []struct {
		heading string // the first line of the table
		params  bool   // whether the last column lists the parameters
		entries []registry.Entry
	}{
		{"| name | advantage |", true, advantage.Estimators.Entries()},
		{"| name | loss of a token |", true, losses},
		{"| `loss_agg` |", false, loss.Aggregations.Entries()},
		{"| `kl_loss_type` |", false, kls},
	} {
		before, rest, found := strings.Cut(page, "\n"+table.heading)
		if !found {
			t.Fatalf("%s has no table %q", path, table.heading)
		}
		rows, after, _ := strings.Cut(rest, "\n\n")
		page = before + "\n" + table.heading + refreshed(rows, table.params, table.entries) + "\n\n" + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(page, string(text)); diff != "" {
		t.Errorf("%s is out of date: run go test ./docs -run TestAlgorithmTables -update (-want +got):\n%s", path, diff)
	}
}

var inCode = regexp.MustCompile("`([^`]+)`")

// refreshed updates the rows of a table of algorithms.md to the given entries: it removes
// names that are not entries, corrects the keys in the last column if params is true,
// and appends a row with the entry's line of documentation for every entry without a row.
func refreshed(table string, params bool, entries []registry.Entry) string {
	missing, keys := map[string]registry.Entry{}, map[string]bool{}
	for _, e := range entries {
		missing[e.Name] = e
		for _, p := range e.Params {
			keys[p.Key] = true
		}
	}
	lines := strings.Split(table, "\n")
	out := lines[:2:2] // the rest of the heading, and the line of dashes
	for _, row := range lines[2:] {
		cells := strings.Split(strings.Trim(row, "|"), "|")
		var known []string
		for _, name := range inCode.FindAllStringSubmatch(cells[0], -1) {
			e, ok := missing[name[1]]
			if !ok {
				continue
			}
			delete(missing, e.Name)
			known = append(known, name[0])
			if last := len(cells) - 1; params && !sameKeys(cells[last], keys, e) {
				cells[last] = parameters(e)
			}
		}
		if len(known) > 0 {
			cells[0] = " " + strings.Join(known, ", ") + " "
			out = append(out, "|"+strings.Join(cells, "|")+"|")
		}
	}
	for _, e := range entries {
		if _, ok := missing[e.Name]; !ok {
			continue
		}
		row := "| `" + e.Name + "` | " + e.Doc + " |"
		if params {
			row += " |" + parameters(e) + "|"
		}
		out = append(out, row)
	}
	return strings.Join(out, "\n")
}

// sameKeys reports whether a cell names the parameters of e and no other key of keys.
func sameKeys(cell string, keys map[string]bool, e registry.Entry) bool {
	n := 0
	for _, m := range inCode.FindAllStringSubmatch(cell, -1) {
		if keys[m[1]] {
			n++
			if !e.Has(m[1]) {
				return false
			}
		}
	}
	return n == len(e.Params)
}

// parameters returns a cell with the keys of e's parameters.
func parameters(e registry.Entry) string {
	var keys []string
	for _, p := range e.Params {
		keys = append(keys, "`"+p.Key+"`")
	}
	return " " + strings.TrimLeft(strings.Join(keys, ", ")+" ", " ")
}

// TestExampleEstimator checks that algorithms.md shows the example that algo/advantage runs.
func TestExampleEstimator(t *testing.T) {
	page, err := os.ReadFile("algorithms.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```go\n")
	example, _, found := strings.Cut(rest, "```")
	code, err := os.ReadFile("../algo/advantage/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !found || example == "" || !strings.HasSuffix(string(code), example) {
		t.Errorf("the example in algorithms.md differs from algo/advantage/example_test.go:\n%s", example)
	}
}
