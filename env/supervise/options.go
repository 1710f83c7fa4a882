package supervise

import (
	"cmp"
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

// Options contains the settings of a Group. Name, Command, LogDir and Watchdog are
// required.
type Options struct {
	Name    string  // name of the environment, for messages and log files
	Command Command // the command of one server
	Servers int     // number of servers; 0: one
	// BasePort is the port of the first server; 0: DefaultBasePort. The other servers
	// use the following ports.
	BasePort int
	// LogDir is the folder of NAME_PORT.log and the older NAME_PORT.log.1. LogBytes
	// limits the total size of the two files; 0: DefaultLogBytes.
	LogDir   string
	LogBytes int64
	// StartTimeout is the time limit for a server's first answer; 0:
	// DefaultStartTimeout.
	StartTimeout time.Duration
	// HangTimeout limits the time in which a server answers no request for the greeting.
	// After this time the server is restarted; 0: no limit.
	HangTimeout time.Duration
	// Grace is the time that a server has to end after SIGTERM; 0: DefaultGrace.
	Grace time.Duration
	// Backoff is the pause before a restart; 0: 250 ms. The pause doubles with each
	// restart up to BackoffMax (0: 30 s). After the server has been up for 10 s the
	// pause is Backoff again.
	Backoff, BackoffMax time.Duration

	// Watchdog is the command that makes this program call the function Watchdog,
	// normally /proc/self/exe.
	Watchdog []string

	// OnReady is called when a server answers. restarts is the number of its restarts.
	OnReady func(url string, restarts int)
	// OnDown is called when a server has ended, before it is restarted. The instances
	// of the server are lost.
	OnDown func(url string, err error)
	Log    *slog.Logger // nil: no log
}

// Defaults of Options.
const (
	DefaultBasePort     = 36001
	DefaultLogBytes     = 8 << 20
	DefaultStartTimeout = 2 * time.Minute
	DefaultGrace        = 3 * time.Second
	defaultBackoff      = 250 * time.Millisecond
	defaultBackoffMax   = 30 * time.Second
	steady              = 10 * time.Second
)

// host is the address that servers listen on.
const host = "127.0.0.1"

// Command starts a server. Args and the values of Set may contain {host} and {port}.
type Command struct {
	Args []string          // Args[0] is a path or a name in PATH
	Dir  string            // "": the working folder of this process
	Env  []string          // environment, as KEY=VALUE
	Set  map[string]string // overrides Env
}

func (o *Options) fill() {
	o.StartTimeout = cmp.Or(o.StartTimeout, DefaultStartTimeout)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.Backoff = cmp.Or(o.Backoff, defaultBackoff)
	o.BackoffMax = cmp.Or(o.BackoffMax, defaultBackoffMax)
	o.Servers = cmp.Or(o.Servers, 1)
	o.LogBytes = cmp.Or(o.LogBytes, DefaultLogBytes)
	o.BasePort = cmp.Or(o.BasePort, DefaultBasePort)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if len(o.Watchdog) == 0 {
		o.Watchdog = []string{"/proc/self/exe"}
	}
}

// check returns an error for options with which no server can start, and makes the
// paths absolute.
func (o *Options) check() error {
	c := &o.Command
	switch {
	case o.LogDir == "":
		return errors.New("no folder for the logs of the servers")
	case len(c.Args) == 0 || c.Args[0] == "":
		return errors.New("no command to start a server")
	case o.BasePort < 1 || o.BasePort+o.Servers-1 > 65535:
		return fmt.Errorf("%d servers from port %d on do not fit below port 65536", o.Servers, o.BasePort)
	}
	err := c.resolve()
	if err != nil {
		return err
	}
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

// resolve makes the working folder and the path of the program absolute. It returns an
// error if one of them does not exist.
func (c *Command) resolve() error {
	var err error
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return err
	}
	if st, err := os.Stat(c.Dir); err != nil {
		return fmt.Errorf("the working folder: %w", err)
	} else if !st.IsDir() {
		return fmt.Errorf("the working folder %s is a file", c.Dir)
	}
	path, err := lookPath(c.Args[0], c.Dir, c.value("PATH"))
	if errors.Is(err, errNoProgram) {
		return fmt.Errorf("%w: install it, or give the path of the program", err)
	}
	if err != nil {
		return err
	}
	c.Args = append([]string{path}, c.Args[1:]...)
	return nil
}

// errNoProgram is the error for a program that does not exist.
var errNoProgram = errors.New("no program")

// portFree returns an error if the port is taken.
func (o *Options) portFree(port int) error {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d is taken: stop the program that listens there, or choose another base_port", port)
	}
	if err != nil {
		return fmt.Errorf("port %d: %w", port, err)
	}
	return ln.Close()
}

// lookPath finds a program in path, the PATH of the server, not in the PATH of this process.
func lookPath(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		path, err := exec.LookPath(name)
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%w %s", errNoProgram, name)
		}
		return path, err
	}
	for folder := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(folder) {
			continue // a relative entry depends on the working folder
		}
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w %q in PATH", errNoProgram, name)
}

// lookup returns the value of a variable: the last one if env contains several.
func lookup(env []string, key string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], key+"="); ok {
			return v
		}
	}
	return ""
}
