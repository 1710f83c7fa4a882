package run

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEmbeddingPage checks that the programs of docs/embedding.md equal the examples.
func TestEmbeddingPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"example_test.go", "example_events_test.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		program := string(source)
		if i := strings.Index(program, "\t// Output:"); i >= 0 {
			program = program[:i] + "}\n"
		}
		program = regexp.MustCompile(`(?m)^// Example.*\n`).ReplaceAllString(program, "")
		program = regexp.MustCompile(`func Example\w*\(\)`).ReplaceAllString(strings.Replace(program, "package run_test", "package main", 1), "func main()")
		if !strings.Contains(string(page), "```go\n"+program+"```\n") {
			t.Errorf("docs/embedding.md does not contain this program:\n%s", program)
		}
	}
}
