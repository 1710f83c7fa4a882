package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/internal/textwidth"
)

// TestOutcomeTableFits checks that the table of validations fits into 80 columns with long names, and shows every number.
func TestOutcomeTableFits(t *testing.T) {
	long := "an-environment-whose-name-has-many-more-columns-than-usual"
	table := outcomeTable([]rundir.Validation{
		{Label: "untrained", Metrics: algo.Metrics{"val/" + long + "/success_rate": 1, "val/" + long + "/mean_score": -123.456, "val/" + long + "/episodes": 100000}},
		{Label: "step 123456", Metrics: algo.Metrics{"val/maze/success_rate": .5}},
	})
	for line := range strings.Lines(table) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > textwidth.Limit {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	mustContain(t, "the table", table, "an-env", "…", "-123.456", "100000", "step 123456", "1.000", "0.500", "95% interval")
	if outcomeTable(nil) != "" {
		t.Error("a table without validations")
	}
}

// TestWrap checks where lines are broken.
func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"short\n":                           "short\n",
		"no newline at the end":             "no newline at\n    the end",
		"  two columns in\n\nx\n":           "  two columns\n      in\n\nx\n",
		"a /word/that/is/wider/than/all b":  "a\n    /word/that/is/wider/than/all\n    b",
		"exactly 14 col\nexactly 15 colu\n": "exactly 14 col\nexactly 15\n    colu\n",
	} {
		if got := textwidth.Wrap(text, 14); got != want {
			t.Errorf("wrap(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestCommandText checks that a long command continues after a backslash and has the same words.
func TestCommandText(t *testing.T) {
	words := []string{"openmanus", "eval", "--model", strings.Repeat("m", 60), strings.Repeat("c", 90), "--json"}
	text := commandText(words...)
	if got := shellLines(text); len(got) != 1 || strings.Join(got[0], " ") != strings.Join(words, " ") {
		t.Errorf("got the words %q", got)
	}
	if n := strings.Count(text, "\n"); n < 3 {
		t.Errorf("%d lines:\n%s", n, text)
	}
}
