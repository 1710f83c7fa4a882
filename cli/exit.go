package cli

import (
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/internal/errext"
)

// exitDocs returns docs/exit-codes.md.
func exitDocs() string {
	var b strings.Builder
	b.WriteString("# Exit codes\n\nGenerated from `internal/errext` (`go test ./cli -update`).\n\n| code | meaning |\n| --- | --- |\n")
	for _, c := range errext.Codes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, c.Meaning)
	}
	return b.String()
}

// usagef returns an error about the command line.
func usagef(format string, args ...any) error {
	return errext.With(errext.Usage, "", fmt.Errorf(format, args...))
}

// report prints an error for people: every line of it behind the program's
// name, so that several faults stay readable and greppable.
func report(s *State, err error) {
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		fmt.Fprintf(s.Stderr, "openmanus: %s\n", line)
	}
}
