package docs

import (
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

// The tables of algorithms.md list the names of the registries, aliases included, and
// the parameters that each of them declares.
func TestAlgorithmTables(t *testing.T) {
	page, err := os.ReadFile("algorithms.md")
	if err != nil {
		t.Fatal(err)
	}
	losses := slices.DeleteFunc(loss.Policies.Entries(), func(e registry.Entry) bool { return e.Name == loss.Bypass })
	var kls []registry.Entry
	for _, e := range kl.Estimators.Entries() {
		kls = append(kls, e, registry.Entry{Name: e.Name + "+"})
	}
	kls = append(kls, registry.Entry{Name: kl.Full})
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
		want := map[string][]string{}
		for _, e := range table.entries {
			want[e.Name] = nil
			if !table.params {
				continue
			}
			for _, p := range e.Params {
				want[e.Name] = append(want[e.Name], p.Key)
			}
			slices.Sort(want[e.Name])
		}
		if diff := cmp.Diff(want, documented(string(page), table.heading, want)); diff != "" {
			t.Errorf("table %q (-registry +algorithms.md):\n%s", table.heading, diff)
		}
	}
}

var inCode = regexp.MustCompile("`([^`]+)`")

// documented returns the names in the first column of the table with that heading. The
// values are the parameters of any entry of known that the last column names.
func documented(page, heading string, known map[string][]string) map[string][]string {
	var parameters []string
	for _, keys := range known {
		parameters = append(parameters, keys...)
	}
	_, table, _ := strings.Cut(page, "\n"+heading)
	table, _, _ = strings.Cut(table, "\n\n")
	out := map[string][]string{}
	for _, row := range strings.Split(table, "\n")[1:] {
		cells := strings.Split(strings.Trim(row, "|"), "|")
		var keys []string
		for _, m := range inCode.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			if slices.Contains(parameters, m[1]) {
				keys = append(keys, m[1])
			}
		}
		slices.Sort(keys)
		for _, m := range inCode.FindAllStringSubmatch(cells[0], -1) {
			out[m[1]] = keys
		}
	}
	return out
}

// The example of a new estimator is the code that algo/advantage runs.
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
		t.Errorf("algorithms.md shows another example than algo/advantage/example_test.go:\n%s", example)
	}
}
