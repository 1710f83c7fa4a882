package external

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain runs the test binary as a score function if its first argument is a role.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			role(os.Args[2:])
			return
		}
	}
	goleak.VerifyTestMain(m)
}

// roles has the score functions of the test binary by first argument.
var roles = map[string]func(args []string){
	"length": func([]string) { answer(lengths) },
	"fail":   func([]string) { fmt.Fprintln(os.Stderr, "ModuleNotFoundError: no module"); os.Exit(3) },
	"hang":   func([]string) { time.Sleep(time.Hour) },
	"once":   roleOnce,
	"say":    func(args []string) { answer(func(request) string { return args[0] }) },
	"big":    func([]string) { answer(func(request) string { return strings.Repeat("x", 100000) }) },
	"family": roleFamily,
	"deaf":   roleDeaf,
	"host":   roleHost,
}

func answer(reply func(request) string) {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		fmt.Println(reply(r))
	}
}

// lengths scores each sample by the length of its response.
func lengths(r request) string {
	scores := []any{}
	for i, s := range r.Samples {
		if i%2 == 0 {
			scores = append(scores, len(s.Response))
			continue
		}
		scores = append(scores, map[string]any{"score": len(s.Response), "odd": 1, "note": "text"})
	}
	b, err := json.Marshal(map[string]any{"request": r.Request, "scores": scores})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// roleOnce exits with 1 at the first start. At later starts it scores samples.
func roleOnce(args []string) {
	if f, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL, 0o644); err == nil {
		_ = f.Close()
		os.Exit(1)
	}
	answer(lengths)
}

// note writes the process id to a file.
func note(path string) {
	if err := os.WriteFile(path+".tmp", fmt.Append(nil, os.Getpid()), 0o644); err != nil {
		panic(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		panic(err)
	}
}

// roleFamily starts a child process that ignores signals, and then sleeps.
func roleFamily(args []string) {
	cmd := exec.Command("/proc/self/exe", "deaf", filepath.Join(args[0], "grandchild"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(args[0], "grandchild")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	note(filepath.Join(args[0], "child"))
	time.Sleep(time.Hour)
}

func roleDeaf(args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	note(args[0])
	time.Sleep(time.Hour)
}

// roleHost calls a score function that never replies.
func roleHost(args []string) {
	s, err := Open("exec:/proc/self/exe deaf "+args[0], Options{Timeout: time.Hour})
	if err != nil {
		panic(err)
	}
	_, _ = s.Score(context.Background(), samples(1))
}
