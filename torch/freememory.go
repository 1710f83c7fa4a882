package torch

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// FreeMemory estimates the bytes that may still be taken on the host: what the
// kernel calls available, or what is left under the control group's limit
// where that is less. ok is false where neither can be read.
func FreeMemory() (bytes int64, ok bool) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			bytes, ok = kib<<10, err == nil
			break
		}
	}
	limit, used := cgroupNumber("memory.max"), cgroupNumber("memory.current")
	if limit > 0 && used >= 0 && (!ok || limit-used < bytes) {
		return max(limit-used, 0), true
	}
	return bytes, ok
}

// cgroupNumber reads a file of the process's own control group (version 2),
// as it is seen from inside a container; -1 where there is none or no limit.
func cgroupNumber(name string) int64 {
	b, err := os.ReadFile("/sys/fs/cgroup/" + name)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return -1 // "max": no limit
	}
	return n
}
