package track

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

func TestDocument(t *testing.T) {
	const path = "../../docs/metrics.md"
	if *update {
		if err := os.WriteFile(path, []byte(Document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != Document() {
		t.Errorf("%s is out of date: run go test ./algo/track -update", path)
	}
}

// What a metric is said to be called here is a metric.
func TestRenamed(t *testing.T) {
	for _, r := range Renamed {
		if r.Here == "" && r.Why == "" {
			t.Errorf("nothing is said of %s", r.Theirs)
		}
		for _, name := range expand(r.Here) {
			if _, ok := Describe(name); !ok && r.Here != "" {
				t.Errorf("%s is said to be %s, which is in no table", r.Theirs, name)
			}
		}
		for _, name := range expand(r.Theirs) {
			if _, ok := Describe(name); ok && name != TimingSeconds+"/logp" && name != TimingSeconds+"/compute_values" {
				t.Errorf("%s is a metric here too", name)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	defer func(table []Definition) { Table = table }(Table)
	defer func(elsewhere map[string]string) { Elsewhere = elsewhere }(Elsewhere)
	Table = []Definition{{"a/{x,y}", "m", ""}, {"b/*", "m", ""}, {"c", "m", ""}, {"f/{g,h}", "m", ""}}
	Elsewhere = map[string]string{}
	SeenBy("p.Test", "f/{g,h}")
	unknown, unwritten := Check([]string{"a/x", "b/1", "b/2", "d", "a/x/y"})
	if d := cmp.Diff([]string{"d", "a/x/y"}, unknown); d != "" {
		t.Errorf("unknown:\n%s", d)
	}
	if d := cmp.Diff([]string{"a/y", "c"}, unwritten); d != "" {
		t.Errorf("unwritten:\n%s", d)
	}
}
