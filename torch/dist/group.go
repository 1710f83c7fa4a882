package dist

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/openmanus/openmanus/torch"
)

// Group is this process's connection to the other ranks. Collectives on tensors must be called inside torch.Run, on tensors
// of its thread; they wait for the other ranks there. The context of a call ends the wait, and with it the group.
//
// Tensors are contiguous and of type float32, float64, float16, bfloat16, int64, int32 or uint8. Gloo computes on those in host
// memory. NCCL computes on those of GPUs; the first such collective makes its connections. All tensors of a group that
// are not in host memory are on the GPU of their rank. NCCL needs a GPU for every rank: if ranks share one, Gloo computes on
// copies in host memory, which is slow ([Group.Backend]).
//
// A collective on a GPU may return before it is complete: operations of the thread that follow it wait for it on the GPU. Its
// failure is the error of a later collective, and of the later copy of elements to the host, which panics in torch.Run.
//
// Results are not recorded for gradients. A tensor that does not fit is an error on this rank only; the others then wait for the
// time-out.
type Group struct {
	rank, size int
	timeout    time.Duration
	p          *torch.ProcessGroup

	calls  sync.Mutex // held during a call; Abort and Close wait for it before they free p
	closed bool       // guarded by calls
}

// Join connects this process to the other ranks of env and returns when all are connected. timeout limits Join, and later
// each collective; it must cover the longest difference between the ranks' arrivals at a collective, such as one rank writing
// a checkpoint.
//
// The connections use the address of this machine from which the store is reached. GLOO_SOCKET_IFNAME names another network interface.
func Join(ctx context.Context, env Env, timeout time.Duration) (*Group, error) {
	if err := env.validate(); err != nil {
		return nil, err
	}
	if timeout < time.Millisecond {
		return nil, fmt.Errorf("dist: a time-out of %v; at least 1 ms is needed", timeout)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	address, err := interfaceAddress(ctx, env, os.Getenv("GLOO_SOCKET_IFNAME"))
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("dist: %w", err)
	}
	serve := env.Rank == 0 && !env.StarterStore
	p, err := torch.NewProcessGroup(torch.ProcessGroupOptions{
		Rank: env.Rank, Size: env.Size, StoreHost: env.Host, StorePort: env.Port, Serve: serve,
		Prefix: "openmanus/" + env.Attempt, Name: fmt.Sprintf("process %d on %s", os.Getpid(), host), Interface: address,
		Timeout: timeout,
	})
	if err != nil {
		return nil, err
	}
	g := &Group{rank: env.Rank, size: env.Size, timeout: timeout, p: p}
	if err := g.join(ctx, env, serve, timeout); err != nil {
		g.Abort()
		return nil, fmt.Errorf("join the other processes: %w", err)
	}
	return g, nil
}

func (g *Group) join(ctx context.Context, env Env, serve bool, timeout time.Duration) error {
	end := time.Now().Add(timeout)
	if !serve {
		if err := awaitStore(ctx, env, timeout); err != nil {
			return err
		}
	}
	return g.call(ctx, func() error { return g.p.Join(max(time.Until(end), time.Millisecond)) })
}

// awaitStore returns when the port of the store accepts connections. c10d's client can wait too, but cannot be interrupted.
func awaitStore(ctx context.Context, env Env, timeout time.Duration) error {
	end := time.Now().Add(timeout)
	for {
		c, err := (&net.Dialer{Deadline: end}).DialContext(ctx, "tcp", env.store())
		if err == nil {
			return c.Close()
		}
		if time.Until(end) <= 0 {
			return fmt.Errorf("dist: rank %d of %d: rank 0 has not opened the store at %s within %v: %w", env.Rank, env.Size, env.store(), timeout, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("dist: rank %d of %d: %w", env.Rank, env.Size, context.Cause(ctx))
		case <-time.After(min(100*time.Millisecond, time.Until(end))):
		}
	}
}

// Rank returns the number of this process, from 0 to Size-1.
func (g *Group) Rank() int { return g.rank }

// Size returns the number of processes.
func (g *Group) Size() int { return g.size }

// Timeout returns the limit of every collective.
func (g *Group) Timeout() time.Duration { return g.timeout }

// Backend returns the name of the library that computes collectives on tensors of device d, "gloo" or "nccl". If ranks share a
// GPU, it names them. The first call for a GPU makes its connections, so all ranks call Backend at the same point.
func (g *Group) Backend(ctx context.Context, d torch.Device) (name string, err error) {
	err = g.call(ctx, func() error {
		name, err = g.p.Backend(d)
		return err
	})
	return name, err
}

// Broadcast replaces the elements of t on all ranks by those of rank root.
func (g *Group) Broadcast(ctx context.Context, t torch.Tensor, root int) error {
	return g.call(ctx, func() error { return g.p.Broadcast(t, root) })
}

// AllReduce replaces t by its sum over the ranks. All ranks get the same bits, but the order of the sum depends on their
// number. bfloat16 and float16 are summed in their own precision.
func (g *Group) AllReduce(ctx context.Context, t torch.Tensor) error {
	return g.call(ctx, func() error { return g.p.AllReduce(t) })
}

// ReduceScatter sums src [Size·n,...] over the ranks and writes part Rank of the sum to dst [n,...], on the same device.
func (g *Group) ReduceScatter(ctx context.Context, dst, src torch.Tensor) error {
	return g.call(ctx, func() error { return g.p.ReduceScatter(dst, src) })
}

// AllGather writes the src [n,...] of all ranks to dst [Size·n,...], on the same device, in the order of the ranks. src may be a
// view of dst.
func (g *Group) AllGather(ctx context.Context, dst, src torch.Tensor) error {
	return g.call(ctx, func() error { return g.p.AllGather(dst, src) })
}

// Barrier returns when all ranks have called it. It does not wait for GPUs. It may be called outside torch.Run.
func (g *Group) Barrier(ctx context.Context) error { return g.call(ctx, g.p.Barrier) }

// Close waits until all ranks have called Close and closes the connections. Without this wait, the end of one rank could break
// the last collective of another. The group is closed even if a rank does not come, which is an error. It may be called
// outside torch.Run. After Abort or Close, Close does nothing.
func (g *Group) Close(ctx context.Context) error {
	g.calls.Lock()
	closed := g.closed
	g.calls.Unlock()
	if closed {
		return nil
	}
	err := g.call(ctx, g.p.Leave)
	g.Abort()
	return err
}

// Abort closes the connections without waiting for other ranks, whose collectives then fail. The collective that another
// goroutine is calling fails too. After Abort or Close, Abort does nothing.
func (g *Group) Abort() {
	g.p.Interrupt()
	g.calls.Lock()
	defer g.calls.Unlock()
	g.closed = true
	g.p.Close()
}

// call runs one call of the native group, which ctx interrupts.
func (g *Group) call(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.calls.Lock()
	defer g.calls.Unlock()
	if g.closed {
		return &Error{fmt.Errorf("the group of rank %d is closed", g.rank)}
	}
	stop := context.AfterFunc(ctx, g.p.Interrupt)
	defer stop()
	switch err := f(); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("dist: rank %d of %d: %w", g.rank, g.size, context.Cause(ctx))
	default:
		return &Error{err}
	}
}

// Error is the error of a failed collective. The group cannot be used after it.
type Error struct{ Err error }

// Error returns the message, which names the collective and the ranks.
func (e *Error) Error() string { return "dist: " + e.Err.Error() }

// Unwrap returns the error of the native library.
func (e *Error) Unwrap() error { return e.Err }

// interfaceAddress returns the IP address of this machine for the connections of the other ranks: that of the network
// interface `name` or, if it is empty, the one from which the store is reached.
func interfaceAddress(ctx context.Context, env Env, name string) (string, error) {
	if name != "" {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return "", fmt.Errorf("dist: GLOO_SOCKET_IFNAME is %q: %w", name, err)
		}
		addrs, err := i.Addrs()
		if err != nil {
			return "", fmt.Errorf("dist: GLOO_SOCKET_IFNAME is %q: %w", name, err)
		}
		for _, a := range addrs {
			if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
				return ip.IP.String(), nil
			}
		}
		return "", fmt.Errorf("dist: GLOO_SOCKET_IFNAME is %q, which has no IP address", name)
	}
	// Connecting a UDP socket sends nothing; it selects the route.
	c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "udp", env.store())
	if err != nil {
		return "", fmt.Errorf("dist: no route to the host of rank 0, %s: %w; check MASTER_ADDR", env.Host, err)
	}
	defer func() { _ = c.Close() }() // nothing was written
	ip := c.LocalAddr().(*net.UDPAddr).IP
	if ip.IsLoopback() && env.LocalSize > 0 && env.LocalSize < env.Size {
		return "", fmt.Errorf("dist: %s is the loopback address %s on this machine, which the %d ranks on other machines cannot reach; "+
			"set MASTER_ADDR to the IP address of rank 0, or GLOO_SOCKET_IFNAME to a network interface", env.Host, ip, env.Size-env.LocalSize)
	}
	return ip.String(), nil
}
