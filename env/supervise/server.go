package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openmanus/openmanus/internal/backoff"
)

// server is one server of a group. Only its goroutine uses it.
type server struct {
	o    *Options
	port int
	url  string
	log  string
}

func newServer(o *Options, port int) *server {
	return &server{
		o: o, port: port,
		url: "http://" + net.JoinHostPort(host, strconv.Itoa(port)),
		log: filepath.Join(o.LogDir, fmt.Sprintf("%s_%d.log", o.Name, port)),
	}
}

// run keeps the server running until ctx ends. It sends nil to the channel (first) when
// the server answers. If the start fails, it sends the error to the channel and returns.
func (s *server) run(ctx context.Context, first chan<- error) {
	o := s.o
	p, err := s.start(ctx)
	first <- err
	if err != nil {
		return
	}
	s.up(0)
	began := time.Now()
	pause := o.Backoff
	for restarts := 0; ; {
		err := s.attend(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if o.OnDown != nil {
			o.OnDown(s.url, err)
		}
		o.Log.Warn("environment server ended and is restarted", "env", o.Name, "error", err, "log", s.log)
		if time.Since(began) >= steady {
			pause = o.Backoff
		}
		for {
			if !backoff.Sleep(ctx, pause) {
				return
			}
			pause = min(2*pause, o.BackoffMax)
			restarts++
			if p, err = s.start(ctx); err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			o.Log.Warn("environment server could not be restarted", "env", o.Name, "server", s.url, "error", err, "next_try", pause)
		}
		began = time.Now()
		o.Log.Info("environment server restarted", "env", o.Name, "server", s.url, "restarts", restarts)
		s.up(restarts)
	}
}

// attend waits until the server ends or hangs, or ctx ends, and then until all processes
// of the server have ended. It returns the reason for the end.
func (s *server) attend(ctx context.Context, p *process) error {
	hung := make(chan struct{})
	watch, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	if limit := s.o.HangTimeout; limit > 0 {
		wg.Go(func() {
			awaitHang(watch, s.url, limit)
			if watch.Err() == nil {
				close(hung)
			}
		})
	}
	select {
	case <-ctx.Done():
		p.stop(s.o.Grace)
		return context.Cause(ctx)
	case <-hung:
		p.stop(s.o.Grace)
		return fmt.Errorf("server %s hung: no answer for %v (hang_timeout_s)", s.url, s.o.HangTimeout)
	case <-p.exited:
		p.stop(0)
		return fmt.Errorf("server %s died: %w", s.url, p.err)
	}
}

func (s *server) up(restarts int) {
	if s.o.OnReady != nil {
		s.o.OnReady(s.url, restarts)
	}
}

// start starts the server once and waits until it answers. After an error all its
// processes have ended.
func (s *server) start(ctx context.Context) (*process, error) {
	o := s.o
	if err := o.portFree(s.port); err != nil {
		return nil, err
	}
	p, err := launch(o.Watchdog, fmt.Sprintf("%s:%d", o.Name, s.port), order{
		Args: s.args(), Dir: o.Command.Dir, Env: s.environ(),
		Log: s.log, LogBytes: o.LogBytes, Grace: o.Grace,
	})
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeoutCause(ctx, o.StartTimeout, errNotReady)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- ready(wait, s.url) }()
	select {
	case err = <-answer:
	case <-p.exited:
		cancel()
		<-answer
	}
	if err == nil {
		select {
		case <-p.exited: // the answer is from another server on the port
			err = fmt.Errorf("server %s did not start: %w; %s", s.url, p.err, logTail(s.log))
		default:
			return p, nil
		}
	} else {
		p.stop(o.Grace)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if errors.Is(err, errNotReady) {
			err = fmt.Errorf("server %s did not answer within %v (start_timeout_s): %w; %s", s.url, o.StartTimeout, err, logTail(s.log))
		}
	}
	p.stop(0)
	return nil, err
}

// errNotReady is the cause of the end of a start that takes too long.
var errNotReady = errors.New("not ready")

// args returns the command of this server.
func (s *server) args() []string {
	out := make([]string, len(s.o.Command.Args))
	for i, v := range s.o.Command.Args {
		out[i] = s.expand(v)
	}
	return out
}

// environ returns the environment of this server. It contains each variable once,
// because programs differ in which of several values they read.
func (s *server) environ() []string {
	c := s.o.Command
	var out []string
	for _, kv := range c.Env {
		key, _, _ := strings.Cut(kv, "=")
		if _, ok := c.Set[key]; !ok {
			out = append(out, kv)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Set)) {
		out = append(out, key+"="+s.expand(c.Set[key]))
	}
	return out
}

// expand replaces {host} and {port} in v.
func (s *server) expand(v string) string {
	return strings.NewReplacer("{host}", host, "{port}", strconv.Itoa(s.port)).Replace(v)
}
