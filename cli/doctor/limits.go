package doctor

import (
	"context"
	"fmt"
	"syscall"
)

// Open files of a run: an episode has a connection to its server and one in the server, if it is built in. The rest
// are libraries, weights, logs and pipes.
const (
	filesPerEpisode = 2
	otherFiles      = 256
)

func limits(_ context.Context, m *Machine) []Finding {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return []Finding{{Name: "open files", Level: Warn, Value: err.Error(), Advice: "the limit of open files is unknown"}}
	}
	need := uint64(m.Episodes*filesPerEpisode + otherFiles)
	f := ok("open files", "at most %d, %d needed for %d concurrent episodes", lim.Cur, need, m.Episodes)
	if lim.Cur < need {
		f.Level = Fail
		f.Advice = fmt.Sprintf("run `ulimit -n %d` first, or lower agent.max_workers", need)
		if lim.Max < need {
			f.Advice = fmt.Sprintf("let the administrator raise the limit (LimitNOFILE of systemd, --ulimit nofile=%d of a container), or lower agent.max_workers", need)
		}
	}
	return []Finding{f}
}
