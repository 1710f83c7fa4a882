package torch

import (
	"context"
	"runtime"
	"runtime/debug"
)

// job is one call of Run. The thread writes the fields after done, then closes done.
type job struct {
	f    func(*Scope) error
	done chan struct{}

	err    error
	panic  *threadPanic
	exited bool // f called runtime.Goexit, as testing's FailNow does
}

// Run calls f on the thread with a new root scope and returns f's error. Tensors made in f are freed at the end unless
// given to an Owner. A failed operation ends f and is returned as an *Error; any other panic of f reaches the caller.
//
// Functions of several callers run one after the other. ctx ends only the wait for the thread. A call of Run inside f for the
// same thread would deadlock and panics.
func Run(ctx context.Context, t *Thread, f func(s *Scope) error) error {
	if t.here() {
		panic("torch: Run called inside Run on the same thread, which would deadlock; use the scope that f was given")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{f: f, done: make(chan struct{})}
	select {
	case t.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.quit:
		return ErrClosed
	}
	<-j.done
	if j.exited {
		runtime.Goexit()
	}
	if j.panic != nil {
		panic(j.panic)
	}
	return j.err
}

// do runs one job on the thread's goroutine.
func (t *Thread) do(j *job) {
	returned := false
	defer func() {
		r := recover()
		switch p := r.(type) {
		case nil:
			j.exited = !returned
		case opPanic:
			j.err = p.err
		default:
			j.panic = &threadPanic{value: r, stack: debug.Stack()}
		}
		for t.cur != nil {
			t.cur.close()
		}
		if j.exited {
			go t.loop(nil) // replaces this goroutine, which is ending
		}
		close(j.done)
	}()
	if j.err = t.broken; j.err == nil {
		j.err = t.takeNumThreads()
	}
	if j.err == nil {
		j.err = t.timed(j.f)
	}
	returned = true
}
