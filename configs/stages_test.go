package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStages(t *testing.T) {
	got, err := ParseStages([]string{"1:5", "100:10", "101:7"})
	if d := cmp.Diff([]Stage{{1, 5}, {100, 10}, {101, 7}}, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	for entry, want := range map[string]string{
		"5": "not a stage", "0:5": "not a stage", "2:0": "not a stage", "a:b": "not a stage", "1:5:6": "not a stage", "": "not a stage", "1:2,1:3": "does not come after", "5:2,4:9": "does not come after",
	} {
		if _, err := ParseStages(strings.Split(entry, ",")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", entry, err, want)
		}
	}
}
