package dist

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// TestGroupsOfOneProcess checks that groups in different threads of one process do not change a container of libtorch at the same
// time. Without help this is rare: testdata/slowmaps.cc makes insertions slow, and finds those of two threads.
func TestGroupsOfOneProcess(t *testing.T) {
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("needs g++")
	}
	library := filepath.Join(t.TempDir(), "slowmaps.so")
	if out, err := exec.Command(compiler, "-std=c++17", "-shared", "-fPIC", "-o", library, "testdata/slowmaps.cc").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, variables := range map[string][]string{"tests' device": nil, "protected": {onProtected}} {
		t.Run(name, func(t *testing.T) {
			env := Env{Size: 1, LocalSize: 1, Host: "127.0.0.1", Port: freePort(t), Attempt: "first"}
			startRank(t, "joins many groups", patient, env, append(variables, "LD_PRELOAD="+library)...).succeed(t)
		})
	}
}

func init() {
	roles["joins many groups"] = joinMany
}

// joinMany joins two groups of this process alone for each collective, at the store of m, and calls it in both at the same time.
func joinMany(ctx context.Context, m member) error {
	first := []func(*Group, *torch.Scope) error{
		func(g *Group, _ *torch.Scope) error { return g.Barrier(ctx) },
		func(g *Group, s *torch.Scope) error { return g.Broadcast(ctx, s.Zeros(torch.Float32, 5), 0) },
		func(g *Group, s *torch.Scope) error { return g.AllReduce(ctx, s.Zeros(torch.Float32, 5)) },
		func(g *Group, s *torch.Scope) error {
			return g.ReduceScatter(ctx, s.Zeros(torch.Float32, 5), s.Zeros(torch.Float32, 5))
		},
		func(g *Group, s *torch.Scope) error {
			return g.AllGather(ctx, s.Zeros(torch.Float32, 5), s.Zeros(torch.Float32, 5))
		},
	}
	for i, call := range first {
		var errs [2]error
		var joined, done sync.WaitGroup
		joined.Add(len(errs))
		for k := range errs {
			done.Go(func() {
				env := m.env
				env.StarterStore, env.Attempt = true, fmt.Sprint(i, "/", k)
				errs[k] = onGroup(ctx, env, &joined, call)
			})
		}
		done.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
	}
	return nil
}

// onGroup joins the group that env describes. When all groups that `joined` counts have joined, it calls f on a thread of its own.
func onGroup(ctx context.Context, env Env, joined *sync.WaitGroup, f func(*Group, *torch.Scope) error) error {
	g, err := Join(ctx, env, patient)
	joined.Done()
	if err != nil {
		return err
	}
	defer g.Abort()
	device, err := deviceOf(env)
	if err != nil {
		return err
	}
	th, err := torch.NewThread(device)
	if err != nil {
		return err
	}
	defer th.Close()
	return torch.Run(ctx, th, func(s *torch.Scope) error {
		joined.Wait()
		return f(g, s)
	})
}
