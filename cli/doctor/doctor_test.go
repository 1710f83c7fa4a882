package doctor

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// machine returns a machine with the given files and variables.
func machine(t *testing.T, files, env map[string]string) *Machine {
	t.Helper()
	m := &Machine{
		Root: t.TempDir(), Runs: filepath.Join(t.TempDir(), "runs"), Cache: t.TempDir(), Episodes: 4,
		Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Getenv: func(key string) string { return env[key] },
	}
	for name, text := range files {
		path := filepath.Join(m.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestExaminations(t *testing.T) {
	const cpu = "processor\t: 0\nmodel name\t: Fast 9000\nflags\t\t: sse avx2 fma\n"
	const memoryInfo = "MemTotal:       33554432 kB\nMemFree: 1 kB\nMemAvailable:   25165824 kB\n"
	utf8 := map[string]string{"LANG": "C.UTF-8"}
	for title, c := range map[string]struct {
		examine func(context.Context, *Machine) []Finding
		files   map[string]string
		env     map[string]string
		change  func(*Machine)
		level   Level
		words   []string
	}{
		"processor":         {examine: processor, files: map[string]string{"proc/cpuinfo": cpu}, level: OK, words: []string{"Fast 9000", "avx2 fma"}},
		"without AVX2":      {examine: processor, files: map[string]string{"proc/cpuinfo": "flags : sse\n"}, level: Warn, words: []string{"AVX2"}},
		"without /proc":     {examine: processor, level: Warn, words: []string{"mount /proc"}},
		"a limit of cores":  {examine: processor, files: map[string]string{"proc/cpuinfo": cpu, "sys/fs/cgroup/cpu.max": "50000 100000\n"}, level: Warn, words: []string{"0.5", "OMP_NUM_THREADS=1"}},
		"threads are set":   {examine: processor, files: map[string]string{"proc/cpuinfo": cpu, "sys/fs/cgroup/cpu.max": "50000 100000\n"}, env: map[string]string{"OMP_NUM_THREADS": "1"}, level: OK, words: []string{"0.5"}},
		"no limit of cores": {examine: processor, files: map[string]string{"proc/cpuinfo": cpu, "sys/fs/cgroup/cpu.max": "max 100000\n"}, level: OK},
		"memory":            {examine: memory, files: map[string]string{"proc/meminfo": memoryInfo}, level: OK, words: []string{"34.4 GB", "25.8 GB"}},
		"little memory":     {examine: memory, files: map[string]string{"proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n"}, level: Warn, words: []string{"docs/memory.md"}},
		"a full container": {
			examine: memory, files: map[string]string{"proc/meminfo": memoryInfo, "sys/fs/cgroup/memory.max": "2147483648\n", "sys/fs/cgroup/memory.current": "2000000000\n"},
			level: Fail, words: []string{"2.1 GB", "container"},
		},
		"no GPU": {examine: gpu, level: OK, words: []string{"CPU"}},
		"a GPU without device files": {
			examine: gpu, files: map[string]string{"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Thu\n"},
			level: Warn, words: []string{"570.86.10", "--gpus all", "never been run"},
		},
		"a GPU without a driver": {examine: gpu, files: map[string]string{"dev/nvidia0": ""}, level: Warn, words: []string{"no driver", "never been run"}},
		"a GPU without libcuda": {
			examine: gpu, files: map[string]string{"dev/nvidia0": "", "proc/driver/nvidia/version": "NVRM version: Module  570.86.10  Thu\n"},
			level: Warn, words: []string{"libcuda.so.1", "never been run"},
		},
		"disks": {examine: disks, level: OK, change: func(m *Machine) { m.Cache = filepath.Join(m.Cache, "a", "b") }},
		"a file in place of a folder": {examine: disks, level: Fail, words: []string{"HF_HOME"}, change: func(m *Machine) {
			m.Cache = filepath.Join(m.Root, "file")
			if err := os.WriteFile(m.Cache, nil, 0o644); err != nil {
				panic(err)
			}
		}},
		"files":                  {examine: limits, level: OK},
		"too few files":          {examine: limits, level: Fail, words: []string{"2000000256", "agent.max_workers"}, change: func(m *Machine) { m.Episodes = 1e9 }},
		"locale":                 {examine: locale, env: utf8, level: OK, words: []string{"C.UTF-8"}},
		"the locale C":           {examine: locale, env: map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "C"}, level: Warn, words: []string{"LC_ALL=C.UTF-8"}},
		"no locale":              {examine: locale, level: Warn, words: []string{"not set"}},
		"clock":                  {examine: clock, level: OK, words: []string{"2026-01-01"}},
		"an early clock":         {examine: clock, level: Warn, words: []string{"set it"}, change: func(m *Machine) { m.Now = time.Unix(0, 0) }},
		"no proxy":               {examine: proxies, level: OK, words: []string{"none"}},
		"a proxy with exception": {examine: proxies, env: map[string]string{"http_proxy": "http://me:secret@p:3128", "NO_PROXY": "gym"}, level: OK, words: []string{"HTTP_PROXY=http://me:xxxxx@p:3128", "NO_PROXY=gym"}},
		"a proxy":                {examine: proxies, env: map[string]string{"HTTP_PROXY": "http://p:3128"}, level: Warn, words: []string{"NO_PROXY"}},
		"a damaged proxy":        {examine: proxies, env: map[string]string{"HTTPS_PROXY": "http://p:31 28"}, level: Fail, words: []string{"HTTPS_PROXY"}},
		"Python is missing":      {examine: python, level: Warn, words: []string{"env install"}, change: func(m *Machine) { m.Environ = []string{"PATH=/nowhere"} }},
		"ports":                  {examine: ports, level: OK},
	} {
		t.Run(title, func(t *testing.T) {
			m := machine(t, c.files, c.env)
			if c.change != nil {
				c.change(m)
			}
			found := c.examine(t.Context(), m)
			level, text := OK, Text(found)
			for _, f := range found {
				if f.Level == Fail || f.Level == Warn && level == OK {
					level = f.Level
				}
				if f.Level != OK && f.Advice == "" {
					t.Errorf("no advice: %+v", f)
				}
			}
			if title == "disks" && level == Warn { // this machine may have little room
				level = OK
			}
			if level != c.level || strings.Contains(text, "secret") {
				t.Errorf("level %s, want %s\n%s", level, c.level, text)
			}
			for _, w := range c.words {
				if !strings.Contains(strings.Join(strings.Fields(text), " "), w) {
					t.Errorf("no %q in\n%s", w, text)
				}
			}
		})
	}
}

// TestUsedPort checks that a port in use is reported.
func TestUsedPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := machine(t, nil, nil)
	m.Ports = []int{l.Addr().(*net.TCPAddr).Port}
	if f := ports(t.Context(), m); f[0].Level != Warn || !strings.Contains(f[0].Advice, "base_port") {
		t.Errorf("got %+v", f)
	}
}

// TestExamine examines this machine.
func TestExamine(t *testing.T) {
	m := machine(t, nil, map[string]string{"LANG": "C.UTF-8"})
	m.Root, m.Environ = "/", os.Environ()
	all := Examine(t.Context(), *m)
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
	}
	want := []string{"processor", "cores", "memory", "libtorch", "shim", "GPU", "disk of runs", "disk of models", "open files", "ports", "Python for AgentGym", "locale", "clock", "proxy"}
	if !slices.Equal(names, want) {
		t.Errorf("examined %q, want %q", names, want)
	}
	libtorch := all[3]
	if libtorch.Level != OK || !strings.Contains(libtorch.Value, "libtorch_cpu.so") {
		t.Errorf("got %+v", libtorch)
	}
	if Failed([]Finding{{Level: Fail}, {Level: Warn}, {Level: OK}, {Level: Fail}}) != 2 {
		t.Error("Failed counts wrongly")
	}
}
