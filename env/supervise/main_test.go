package supervise

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain runs the test binary as a watchdog, as one of the roles, or as the tests.
func TestMain(m *testing.M) {
	if code, ok := Watchdog(os.Args, os.Stdin, os.Stderr); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			role(os.Args[2:])
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// roles maps the first argument of the test binary to the program that runs in place of the tests.
var roles = map[string]func(args []string){
	"serve":    roleServe,
	"fail":     roleFail,
	"hang":     func([]string) { time.Sleep(time.Hour) },
	"mute":     roleMute,
	"stubborn": roleStubborn,
	"wrapper":  roleWrapper,
	"launcher": roleLauncher,
	"die":      func(args []string) { time.Sleep(200 * time.Millisecond); fmt.Println("dying now"); os.Exit(9) },
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// roleServe serves HTTP at PORT with endpoints that crash, write to the log or start
// processes.
func roleServe(args []string) {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("/pid", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getpid()) })
	mux.HandleFunc("/env/{key}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, os.Getenv(r.PathValue("key"))) })
	mux.HandleFunc("/dir", func(w http.ResponseWriter, _ *http.Request) {
		dir, err := os.Getwd()
		must(err)
		fmt.Fprint(w, dir)
	})
	mux.HandleFunc("/die", func(http.ResponseWriter, *http.Request) { fmt.Println("requested to die"); os.Exit(3) })
	mux.HandleFunc("/log/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("n"))
		must(err)
		for i := range n {
			fmt.Printf("line %06d %s\n", i, strings.Repeat("x", 80))
		}
	})
	// /spawn starts a child in another process group that ignores SIGTERM, as a JVM may.
	mux.HandleFunc("/spawn", func(w http.ResponseWriter, _ *http.Request) {
		cmd := exec.Command("/proc/self/exe", "stubborn")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.StdoutPipe()
		must(err)
		must(cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n') // the child prints its id after it ignores SIGTERM
		must(err)
		fmt.Fprint(w, strings.TrimSpace(line))
	})
	// /orphan starts a process in another group that ignores SIGTERM and whose parent has ended.
	mux.HandleFunc("/orphan", func(w http.ResponseWriter, _ *http.Request) {
		cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("/proc/%d/exe stubborn &", os.Getpid()))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.StdoutPipe()
		must(err)
		must(cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		must(err)
		must(cmd.Wait())
		fmt.Fprint(w, strings.TrimSpace(line))
	})
	ln, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	must(err)
	must(http.Serve(ln, mux))
}

// roleFail fails as Python does if a package is missing.
func roleFail([]string) {
	fmt.Fprintln(os.Stderr, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'gymnasium'")
	os.Exit(1)
}

// roleMute listens on its port and never answers.
func roleMute(args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	must(err)
	defer ln.Close()
	fmt.Println("loading the index")
	time.Sleep(time.Hour)
}

// roleStubborn prints its process id. Only SIGKILL ends it.
func roleStubborn([]string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	fmt.Println(os.Getpid())
	time.Sleep(time.Hour)
}

// roleWrapper starts a server and waits for it, as `conda run` does.
func roleWrapper(args []string) {
	cmd := exec.Command("/proc/self/exe", append([]string{"serve"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	must(cmd.Run())
}

// roleLauncher starts servers (ROLE BASEPORT N LOGDIR), prints "ready", and waits until it is killed.
func roleLauncher(args []string) {
	port, err := strconv.Atoi(args[1])
	must(err)
	n, err := strconv.Atoi(args[2])
	must(err)
	_, err = Start(context.Background(), Options{
		Name: "fake", Command: Command{Args: []string{"/proc/self/exe", args[0], "{port}"}, Env: os.Environ()},
		Servers: n, BasePort: port, LogDir: args[3], Grace: 300 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	must(err)
	fmt.Println("ready")
	time.Sleep(time.Hour)
}
