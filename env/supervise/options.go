package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options say which servers a Group starts and how. Name, Command, LogDir and
// Watchdog are required.
type Options struct {
	Name    string  // of the environment, in messages and in the names of logs
	Command Command // of one server
	Servers int     // how many, 1 if 0
	Host    string  // where they listen, 127.0.0.1 if empty
	// BasePort is the port of the first server, DefaultBasePort if 0; the
	// others have those after it.
	BasePort int
	// LogDir is where NAME_PORT.log is written, with NAME_PORT.log.1 before it;
	// LogBytes bounds both together, DefaultLogBytes if 0.
	LogDir   string
	LogBytes int64
	// StartTimeout is how long a server may take until it answers,
	// DefaultStartTimeout if 0.
	StartTimeout time.Duration
	// HangTimeout is how long a server may leave every question for its greeting
	// without an answer before it is taken for hung and started again; 0: for
	// ever.
	HangTimeout time.Duration
	// Grace is how long a server may take to end by SIGTERM, DefaultGrace if 0.
	Grace time.Duration
	// Backoff is the pause before a dead server is started again, doubling up
	// to BackoffMax while it keeps dying; 250 ms and 30 s if 0. Who has been up
	// for Steady, 10 s if 0, starts from Backoff anew.
	Backoff, BackoffMax, Steady time.Duration

	// Watchdog is the command that makes this program call Watchdog:
	// /proc/self/exe, unless a test has another.
	Watchdog []string

	// OnReady is told of a server that answers, for the first time or again
	// after that many restarts.
	OnReady func(url string, restarts int)
	// OnDown is told of a server that ended, before it is started again: what
	// lived in it is lost.
	OnDown func(url string, err error)
	Log    *slog.Logger // nil: silent
}

// The values where Options leave them open.
const (
	DefaultBasePort     = 36001
	DefaultLogBytes     = 8 << 20
	DefaultStartTimeout = 2 * time.Minute
	DefaultGrace        = 3 * time.Second
	defaultBackoff      = 250 * time.Millisecond
	defaultBackoffMax   = 30 * time.Second
	defaultSteady       = 10 * time.Second
)

// Command is how a server is started. Args and the values of Set may contain
// {host} and {port}.
type Command struct {
	Args []string          // Args[0] is a path, or a name that is looked up in PATH
	Dir  string            // "" is the working folder of this process
	Env  []string          // the environment, as KEY=VALUE
	Set  map[string]string // on top of it
}

func (o *Options) fill() {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&o.StartTimeout, DefaultStartTimeout)
	set(&o.Grace, DefaultGrace)
	set(&o.Backoff, defaultBackoff)
	set(&o.BackoffMax, defaultBackoffMax)
	set(&o.Steady, defaultSteady)
	if o.Servers <= 0 {
		o.Servers = 1
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.BasePort == 0 {
		o.BasePort = DefaultBasePort
	}
	if o.LogBytes <= 0 {
		o.LogBytes = DefaultLogBytes
	}
	if len(o.Watchdog) == 0 {
		o.Watchdog = []string{"/proc/self/exe"}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// check finds what would keep every server from starting, and makes the
// paths absolute.
func (o *Options) check() error {
	c := &o.Command
	switch {
	case o.LogDir == "":
		return errors.New("no folder for the servers' logs")
	case len(c.Args) == 0 || c.Args[0] == "":
		return errors.New("no command that starts a server")
	case o.BasePort < 1 || o.BasePort+o.Servers-1 > 65535:
		return fmt.Errorf("%d servers from port %d on do not fit below port 65536", o.Servers, o.BasePort)
	}
	var err error
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return err
	}
	if st, err := os.Stat(c.Dir); err != nil {
		return fmt.Errorf("the working folder: %w", err)
	} else if !st.IsDir() {
		return fmt.Errorf("the working folder %s is a file", c.Dir)
	}
	path, err := lookPath(c.Args[0], c.Dir, c.path())
	if err != nil {
		return err
	}
	c.Args = append([]string{path}, c.Args[1:]...)
	if o.LogDir, err = filepath.Abs(o.LogDir); err != nil {
		return err
	}
	if err := os.MkdirAll(o.LogDir, 0o755); err != nil {
		return fmt.Errorf("the folder of the servers' logs: %w", err)
	}
	for i := range o.Servers {
		if err := o.portFree(o.BasePort + i); err != nil {
			return err
		}
	}
	return nil
}

// portFree says who wants a port that is taken.
func (o *Options) portFree(port int) error {
	ln, err := net.Listen("tcp", net.JoinHostPort(o.Host, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d is taken: end what listens there, or choose another base_port", port)
	}
	if err != nil {
		return fmt.Errorf("port %d: %w", port, err)
	}
	return ln.Close()
}

// path is the PATH of the server.
func (c *Command) path() string { return c.value("PATH") }

// lookPath finds a program as the server's shell would: in its PATH, not in
// that of this process.
func lookPath(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		path, err := exec.LookPath(name)
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("there is no program %s", name)
		}
		return path, err
	}
	for folder := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(folder) {
			continue // a relative one would depend on who asks
		}
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no program %q in PATH", name)
}

// lookup reads a variable; as in execve, the last one of a name counts.
func lookup(env []string, key string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], key+"="); ok {
			return v
		}
	}
	return ""
}
