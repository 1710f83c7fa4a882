package supervise

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// pids returns the ids of all processes.
func pids() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// descendants returns the running processes below root. It omits zombies, but not the
// processes below them.
func descendants(root int) []int {
	children := map[int][]int{}
	zombie := map[int]bool{}
	for _, pid := range pids() {
		parent, state, ok := parentOf(pid)
		if !ok {
			continue
		}
		children[parent] = append(children[parent], pid)
		zombie[pid] = state == 'Z' || state == 'X'
	}
	var found []int
	for next := children[root]; len(next) > 0; {
		pid := next[0]
		next = append(next[1:], children[pid]...)
		if !zombie[pid] {
			found = append(found, pid)
		}
	}
	return found
}

// parentOf returns the parent and the state of a process. In /proc/PID/stat they
// follow the name, which is in brackets and may contain any character.
func parentOf(pid int) (parent int, state byte, ok bool) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, false
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, fields[0][0], err == nil
}

// Marked returns the running processes that have the environment variable key with
// this value. It omits processes of other users, whose variables cannot be read.
func Marked(key, value string) []int {
	want := []byte(key + "=" + value)
	var found []int
	for _, pid := range pids() {
		b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err != nil {
			continue
		}
		for v := range bytes.SplitSeq(b, []byte{0}) {
			if bytes.Equal(v, want) {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// signalEach sends a signal to every process. It ignores processes that have ended.
func signalEach(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}
