package docs

import (
	"os"
	"strings"
	"testing"
)

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
