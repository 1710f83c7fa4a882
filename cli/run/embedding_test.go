package run

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEmbeddingPage checks that the program of docs/embedding.md equals Example.
func TestEmbeddingPage(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile(`(?m)^(//.*|\t// Output:.*)\n`).ReplaceAllString(string(source), "")
	program = strings.NewReplacer("package run_test", "package main", "func Example()", "func main()").Replace(program)
	if !strings.Contains(string(page), "```go\n"+program+"```\n") {
		t.Errorf("docs/embedding.md does not contain this program:\n%s", program)
	}
}
