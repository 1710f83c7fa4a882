package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/internal/errext"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestReportPrefixesEveryLine(t *testing.T) {
	ts := newTestState(t)
	printError(ts.State, errors.New("one\ntwo\n"))
	if diff := cmp.Diff("openmanus: one\nopenmanus: two\n", ts.err.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestExitCodeDocumentation checks that docs/exit-codes.md equals the output of exitDocs.
func TestExitCodeDocumentation(t *testing.T) {
	const path = "../docs/exit-codes.md"
	if *update {
		if err := os.WriteFile(path, []byte(exitDocs()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), exitDocs()); diff != "" {
		t.Errorf("out of date: run go test ./cli -update (-want +got):\n%s", diff)
	}
}

// brokenPipe fails every write, as a closed pipe does.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

type panics struct{}

func (panics) Write([]byte) (int, error) { panic("a fault") }

func TestMainCodes(t *testing.T) {
	ts := newTestState(t, "version")
	ts.Stdout = brokenPipe{}
	if code := Main(ts.State); code != int(errext.Disk) {
		t.Errorf("exit code %d with a closed standard output", code)
	}
	ts = newTestState(t, "version")
	ts.Stdout = panics{}
	if code := Main(ts.State); code != int(errext.Internal) || !strings.Contains(ts.err.String(), "please report it: a fault") {
		t.Errorf("exit code %d after a panic, %q", code, ts.err)
	}
}

// exitDocs returns docs/exit-codes.md.
func exitDocs() string {
	var b strings.Builder
	b.WriteString("# Exit codes\n\nGenerated from `internal/errext` (`go test ./cli -update`).\n\n| code | meaning |\n| --- | --- |\n")
	for _, c := range errext.Codes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, c.Meaning)
	}
	return b.String()
}
