package ranks

import (
	"context"
	"time"
)

// Finish calls f on every rank, which does not use the group, and waits for the others as long as their f runs. It is for the end of a run:
// the metric sinks of rank 0 have limits of their own. If f fails on a rank, all ranks return an error.
func (r *Ranks) Finish(ctx context.Context, f func() error) error {
	if r == nil {
		return f()
	}
	stop := r.sendAlive(ctx)
	err := f()
	stop()
	done := true
	_, err = exchange(ctx, r, &done, err)
	return err
}

// keepAlive is sendAlive if there are workers: then the trainers have a group of their own for tensors, and only exchanges use the group
// of r. Otherwise the work of this rank may use it, and keepAlive does nothing.
func (r *Ranks) keepAlive(ctx context.Context) (stop func()) {
	if r.Workers() == 0 || r.broken {
		return func() {}
	}
	return r.sendAlive(ctx)
}

// sendAlive starts to send, in every third of the group's time-out, a message that this rank still works. Ranks that wait for it in an
// exchange answer and wait again, so that the time-out bounds the silence of a rank and not its work. The messages are collectives, so the
// work must not use the group. stop ends the messages and waits for the one in progress; the next exchange returns its error.
func (r *Ranks) sendAlive(ctx context.Context) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(max(r.group.Timeout()/3, time.Millisecond))
		defer tick.Stop()
		for err := error(nil); err == nil; {
			select {
			case <-quit:
				return
			case <-tick.C:
				_, err = r.round(ctx, []byte{working})
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}
