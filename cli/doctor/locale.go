package doctor

import (
	"cmp"
	"context"
	"strings"
)

func locale(_ context.Context, m *Machine) []Finding {
	value := cmp.Or(m.Getenv("LC_ALL"), m.Getenv("LC_CTYPE"), m.Getenv("LANG"))
	f := ok("locale", "%s", cmp.Or(value, "not set"))
	if !strings.Contains(strings.ReplaceAll(strings.ToLower(value), "-", ""), "utf8") {
		f.Level, f.Advice = Warn, "openmanus writes UTF-8; programs that it starts (Python scorers, AgentGym's servers) may not: export LC_ALL=C.UTF-8"
	}
	return []Finding{f}
}
