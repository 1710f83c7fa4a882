package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
)

// deepCheck returns the table of run.DeepCheck. If a check fails, it prints the table and returns an error.
func (s *State) deepCheck(ctx context.Context, source string, cfg configs.Config) (string, error) {
	results := run.DeepCheck(ctx, s.Host, cfg)
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	width, failed := 0, 0
	for _, r := range results {
		width = max(width, len(r.Key))
	}
	var b strings.Builder
	for _, r := range results {
		verdict, text := "ok", r.Finding
		switch {
		case r.Err != nil:
			verdict, text = "fail", r.Err.Error()
			failed++
		case r.Skipped:
			verdict = "skip"
		}
		fmt.Fprintf(&b, "  %-4s  %-*s  %s\n", verdict, width, r.Key, text)
	}
	if failed == 0 {
		return b.String(), nil
	}
	if err := s.print([]byte(b.String())); err != nil {
		return "", err
	}
	return "", errext.With(errext.Check, "", fmt.Errorf("%s: %d of %d checks failed", source, failed, len(results)))
}
