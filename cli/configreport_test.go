package cli

import (
	"strings"
	"testing"
)

// TestImportReportOrder checks that the rows that need attention are last in the report of an import, and that the last
// line counts them.
func TestImportReportOrder(t *testing.T) {
	code, _, stderr := inProcess(t, t.TempDir(), "config", "import", "algorithm.use_kl_in_rewrad=True", "critic.ulysses_sequence_parallel_size=4",
		"algorithm.adv_estimator=grpo", "data.train_files=${nowhere.set}", "trainer.total_epochs=3", "trainer.project_name=x")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	var doubts []string
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			break // end of the table
		}
		status, _, _ := strings.Cut(line, "  ")
		if status == "open" || status == "not supported" || status == "unknown" {
			doubts = append(doubts, status)
		} else if len(doubts) > 0 {
			t.Errorf("row with status %q follows rows with %q", line, doubts)
		}
	}
	if got := strings.Join(doubts, ", "); got != "open, not supported, unknown" {
		t.Errorf("the report ends with %s:\n%s", got, stderr)
	}
	const want = "1 unknown (algorithm.use_kl_in_rewrad), 1 not supported (critic.ulysses_sequence_parallel_size), 1 open (data.train_files)"
	if last := lines[len(lines)-1]; !strings.Contains(last, want) {
		t.Errorf("the last line is %q, want %q", last, want)
	}
	_, _, stderr = inProcess(t, t.TempDir(), "config", "import", "trainer.total_epochs=3")
	if strings.Contains(stderr, "Not converted") {
		t.Errorf("the report lists keys that were not converted, want none:\n%s", stderr)
	}
}
