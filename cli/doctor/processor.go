package doctor

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// instructions are the instruction sets that libtorch has special code for.
var instructions = []string{"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"}

func processor(_ context.Context, m *Machine) []Finding {
	info := m.read("/proc/cpuinfo")
	flags := strings.Fields(field(info, "flags"))
	var has []string
	for _, name := range instructions {
		if slices.Contains(flags, name) {
			has = append(has, name)
		}
	}
	f := ok("processor", "%s: %s", cmp.Or(field(info, "model name"), "unknown model"), strings.Join(has, " "))
	switch {
	case len(flags) == 0:
		f = Finding{Name: "processor", Level: Warn, Value: "/proc/cpuinfo lists no instruction sets", Advice: "mount /proc"}
	case !slices.Contains(has, "avx2"):
		f.Level, f.Advice = Warn, "without AVX2 the computation is several times slower: use another machine"
	}
	return []Finding{f, cores(m)}
}

// cores compares the processor's cores with the share that the control group allows.
func cores(m *Machine) Finding {
	f := ok("cores", "%d", runtime.NumCPU())
	quota, period, _ := strings.Cut(strings.TrimSpace(m.read("/sys/fs/cgroup/cpu.max")), " ")
	q, errQ := strconv.ParseFloat(quota, 64)
	p, errP := strconv.ParseFloat(period, 64)
	if errQ != nil || errP != nil || p <= 0 { // "max": no limit
		return f
	}
	allowed := q / p
	f.Value += fmt.Sprintf(", of which the container may use %.1f", allowed)
	if allowed < float64(runtime.NumCPU())-0.5 {
		f.Level = Warn
		f.Advice = fmt.Sprintf("set OMP_NUM_THREADS=%d: more threads than the container may use wait for each other", max(1, int(allowed)))
		if n, err := strconv.Atoi(m.Getenv("OMP_NUM_THREADS")); err == nil && float64(n) <= allowed+0.5 {
			f.Level, f.Advice = OK, ""
		}
	}
	return f
}
