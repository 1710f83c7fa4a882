package doctor

import (
	"context"
	"os/exec"
	"strings"

	"github.com/openmanus/openmanus/env/supervise"
)

// python examines the interpreter that `openmanus env install` uses. The built-in environments need none.
func python(ctx context.Context, m *Machine) []Finding {
	const name, advice = "Python for AgentGym", "only AgentGym's own servers need it (openmanus env install); the built-in maze, textcraft and wordle do not"
	path, err := supervise.FindPython(ctx, "", m.Environ)
	if err != nil {
		return []Finding{{name, Warn, err.Error(), advice}}
	}
	cmd := exec.CommandContext(ctx, path, "-c", "import platform, venv, ensurepip; print(platform.python_version())")
	cmd.Env = m.Environ
	out, err := cmd.Output()
	if err != nil {
		return []Finding{{name, Warn, path + " has no venv or ensurepip", "Debian and Ubuntu: apt-get install python3-venv. " + advice}}
	}
	return []Finding{ok(name, "%s at %s", strings.TrimSpace(string(out)), path)}
}
