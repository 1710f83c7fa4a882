package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Sizes of the memory that training needs. The quickstart takes about 1 GB. AdamW in float32 takes 16 bytes for each
// parameter: 8 GB for a model of 0.5 billion.
const (
	leastMemory = 1 << 30
	usualMemory = 10 << 30
)

func memory(_ context.Context, m *Machine) []Finding {
	info := m.read("/proc/meminfo")
	total, free := kibibytes(field(info, "MemTotal")), kibibytes(field(info, "MemAvailable"))
	if total == 0 {
		return []Finding{{Name: "memory", Level: Warn, Value: "/proc/meminfo cannot be read", Advice: "mount /proc"}}
	}
	value := fmt.Sprintf("%s, %s available", gigabytes(total), gigabytes(free))
	if limit := bytesIn(m.read("/sys/fs/cgroup/memory.max")); limit > 0 {
		left := max(limit-bytesIn(m.read("/sys/fs/cgroup/memory.current")), 0)
		value += fmt.Sprintf("; the container may use %s, %s are left", gigabytes(limit), gigabytes(left))
		free = min(free, left)
	}
	f := ok("memory", "%s", value)
	switch {
	case free < leastMemory:
		f.Level, f.Advice = Fail, "the quickstart needs 1 GB: end other programs, or raise the limit of the container"
	case free < usualMemory:
		f.Level, f.Advice = Warn, "enough for small models; training every weight of a model of 0.5 billion parameters takes about 10 GB (docs/memory.md lists what takes less)"
	}
	return []Finding{f}
}

// kibibytes parses a number such as "16384 kB".
func kibibytes(s string) int64 { return bytesIn(strings.TrimSuffix(s, " kB")) << 10 }

// bytesIn parses a number, or returns 0.
func bytesIn(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil { // "max": no limit
		return 0
	}
	return n
}
