//go:build torchdebug || race

package torch

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

const debugging = true

// site is the stack at which a tensor was made.
type site struct{ pcs []uintptr }

var (
	liveMu  sync.Mutex
	liveSet = map[*handle]struct{}{} // guarded by liveMu
)

func remember(h *handle) {
	h.site.pcs = make([]uintptr, 16)
	h.site.pcs = h.site.pcs[:runtime.Callers(2, h.site.pcs)]
	liveMu.Lock()
	defer liveMu.Unlock()
	liveSet[h] = struct{}{}
}

func forget(h *handle) {
	liveMu.Lock()
	defer liveMu.Unlock()
	delete(liveSet, h)
}

// line returns the first caller outside this package.
func (s site) line() string {
	frames := runtime.CallersFrames(s.pcs)
	for {
		f, more := frames.Next()
		ours := strings.HasPrefix(f.Function, "github.com/openmanus/openmanus/torch.") && !strings.HasSuffix(f.File, "_test.go")
		if f.PC != 0 && !ours {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}

func (s site) text() string { return " (it was made at " + s.line() + ")" }

// Live lists the live tensors, in debug builds. Call it only while no thread runs a job.
func Live() []LiveInfo {
	liveMu.Lock()
	defer liveMu.Unlock()
	var l []LiveInfo
	for h := range liveSet {
		t := Tensor{h}
		l = append(l, LiveInfo{Shape: t.Shape(), DType: t.DType(), Home: h.home.name, Site: h.site.line()})
	}
	return l
}
