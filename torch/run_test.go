package torch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestErrors(t *testing.T) {
	tests := []struct {
		name string
		f    func(s *torch.Scope)
		want string
	}{
		{"from gotorch", func(s *torch.Scope) { a(s).MatMul(b(s)) }, "torch: MatMul of [2 3] and [2 3]: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"},
		{"from gotorch, list", func(s *torch.Scope) { torch.Stack([]torch.Tensor{a(s), a(s).View(6)}, 0) }, "torch: Stack of [2 3] and [6]: stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [6] at entry 1"},
		{"from the shim", func(s *torch.Scope) { a(s).Linear(b(s).Transpose(0, 1), torch.Tensor{}) }, "torch: Linear of [2 3] and [3 2]: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"},
		{"none", func(s *torch.Scope) { a(s).Add(torch.Tensor{}) }, "torch: Add: an operand is none (the zero Tensor)"},
		{"shape of none", func(*torch.Scope) { torch.Tensor{}.Shape() }, "torch: Shape: the tensor is none (the zero Tensor)"},
		{"elements do not fit", func(s *torch.Scope) { s.Float32s([]float32{1, 2}, 3) }, "torch: Float32s: 8 bytes for shape [3] of float32, which takes 12"},
		{"bytes do not fit", func(s *torch.Scope) { s.Bytes([]byte{1, 2}, torch.Float32, 1) }, "torch: Bytes: 2 bytes for shape [1] of float32, which takes 4"},
		{"negative size", func(s *torch.Scope) { s.Zeros(torch.Float32, 2, -1) }, "torch: Full: size -1 of dimension 1 is negative"},
		{"no such dimension", func(s *torch.Scope) { a(s).Size(2) }, "torch: Size of [2 3]: dimension 2 is out of range"},
		{"no tensors", func(*torch.Scope) { torch.Cat(nil, 0) }, "torch: Cat: no tensors"},
		{"item", func(s *torch.Scope) { a(s).Item() }, "torch: Item of [2 3]: a Tensor with 6 elements cannot be converted to Scalar"},
		{"integers have no gradient", func(s *torch.Scope) { s.Zeros(torch.Int64, 2).SetRequiresGrad(true) }, "torch: SetRequiresGrad of [2]: only floating point tensors have gradients, this one is Long"},
		{"backward of many", func(s *torch.Scope) { x := a(s); x.SetRequiresGrad(true); x.Exp().Backward() }, "torch: Backward of [2 3]: grad can be implicitly created only for scalar outputs"},
		{"backward without history", func(s *torch.Scope) { a(s).Sum().Backward() }, "torch: Backward of []: element 0 of tensors does not require grad and does not have a grad_fn"},
		{"backward twice", func(s *torch.Scope) {
			x := a(s)
			x.SetRequiresGrad(true)
			y := x.Exp().Sum()
			y.Backward()
			y.Backward()
		}, "torch: Backward of []: Trying to backward through the graph a second time"},
		{"in-place on a leaf", func(s *torch.Scope) { x := a(s); x.SetRequiresGrad(true); x.Zero_() }, "torch: Zero_ of [2 3]: a leaf Variable that requires grad is being used in an in-place operation."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := torchtest.RunErr(t, test.f)
			var e *torch.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want a *torch.Error", err)
			}
			if !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "Exception raised from") {
				t.Errorf("got  %q\nwant %q", err, test.want)
			}
		})
	}
	// The thread continues after errors.
	torchtest.Run(t, func(s *torch.Scope) { torchtest.Values(t, a(s).Sum(), 0, 0) })
}

func TestErrorFields(t *testing.T) {
	err := torchtest.RunErr(t, func(s *torch.Scope) { a(s).Add(s.Ones(torch.Float32, 4)) })
	var e *torch.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a *torch.Error", err)
	}
	want := &torch.Error{Op: "Add", Msg: "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1", Shapes: [][]int{{2, 3}, {4}}}
	if d := cmp.Diff(want, e); d != "" {
		t.Error(d)
	}
}

func TestRunReturnsTheError(t *testing.T) {
	want := errors.New("mine")
	if err := torch.Run(t.Context(), torchtest.Thread(t), func(*torch.Scope) error { return want }); err != want {
		t.Errorf("got %v, want %v", err, want)
	}
}

// panics returns the value that f panics with, as text.
func panics(t *testing.T, f func()) (text string) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		} else {
			t.Error("the function did not panic")
		}
	}()
	f()
	return
}

func TestProgrammerErrors(t *testing.T) {
	var kept torch.Tensor
	tests := []struct {
		name string
		f    func(s *torch.Scope)
		want string
	}{
		{"any panic", func(*torch.Scope) { panic("oh") }, "oh"},
		{"freed", func(s *torch.Scope) {
			var x torch.Tensor
			s.Do(func(s *torch.Scope) { x = a(s) })
			x.Exp()
		}, "Exp of a tensor that was freed"},
		{"closed scope", func(s *torch.Scope) {
			var in *torch.Scope
			s.Do(func(s *torch.Scope) { in = s })
			in.Zeros(torch.Float32)
		}, "scope was used after its end"},
		{"keep in the root scope", func(s *torch.Scope) { s.Keep(a(s)) }, "Keep in the root scope"},
		{"Run inside Run", func(s *torch.Scope) {
			_ = torch.Run(context.Background(), s.Thread(), func(*torch.Scope) error { return nil })
		}, "Run called inside Run"},
		{"Close inside Run", func(s *torch.Scope) { s.Thread().Close() }, "Close called inside Run"},
		{"used after Release", func(s *torch.Scope) {
			o := torch.NewOwner(s.Thread(), "o")
			defer o.Close()
			x := a(s)
			o.Own(x)
			o.Release(x)
			x.Exp()
		}, "Exp of a tensor that was freed"},
		{"release by another", func(s *torch.Scope) {
			o := torch.NewOwner(s.Thread(), "o")
			defer o.Close()
			o.Release(a(s))
		}, "Release of a tensor that the owner o does not own"},
		{"own after close", func(s *torch.Scope) {
			o := torch.NewOwner(s.Thread(), "o")
			o.Close()
			o.Own(a(s))
		}, "owner o was used after Close"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := panics(t, func() { _ = torchtest.RunErr(t, test.f) })
			if !strings.Contains(got, test.want) || !strings.Contains(got, "run_test.go") {
				t.Errorf("got %q, want %q with the stack of the thread", got, test.want)
			}
		})
	}
	t.Run("outside Run", func(t *testing.T) {
		o := torch.NewOwner(torchtest.Thread(t), "o")
		defer o.Close()
		torchtest.Run(t, func(s *torch.Scope) { kept = a(s); o.Own(kept) })
		if got := panics(t, func() { kept.Exp() }); !strings.Contains(got, "outside") {
			t.Errorf("an operation outside Run panics with %q", got)
		}
		if got := kept.Shape(); !cmp.Equal(got, []int{2, 3}) { // constant properties can be read outside Run
			t.Errorf("the shape is %v, want [2 3]", got)
		}
	})
}

func TestRunWaitsForTheThread(t *testing.T) {
	th := torchtest.Thread(t)
	started, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = torch.Run(context.Background(), th, func(*torch.Scope) error {
			close(started)
			<-release
			return nil
		})
	})
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		err := torch.Run(ctx, th, func(*torch.Scope) error { t.Error("a cancelled function ran"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		close(release)
	})
	cancel()
	wg.Wait()
	if err := torch.Run(ctx, th, func(*torch.Scope) error { t.Error("Run called a function after its context was cancelled"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestRunFromManyGoroutines(t *testing.T) {
	th := torchtest.Thread(t)
	o := torch.NewOwner(th, "sum")
	defer o.Close()
	var sum torch.Tensor
	torchtest.Run(t, func(s *torch.Scope) { sum = s.Zeros(torch.Int64); o.Own(sum) })
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 50 {
				err := torch.Run(context.Background(), th, func(s *torch.Scope) error {
					if i%4 == 0 { // NoGrad of one caller does not affect another
						s.NoGrad(func() { sum.Add_(s.Ones(torch.Int64), 1) })
						return nil
					}
					x := s.Ones(torch.Float32)
					x.SetRequiresGrad(true)
					if !x.Exp().RequiresGrad() {
						return errors.New("grad mode is off")
					}
					sum.Add_(s.Ones(torch.Int64), 1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	torchtest.Run(t, func(*torch.Scope) { torchtest.Values(t, sum, 0, 16*50) })
}

func TestGoexitInRun(t *testing.T) {
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	done := make(chan bool, 1)
	go func() {
		defer func() { done <- true }()
		_ = torch.Run(context.Background(), th, func(s *torch.Scope) error {
			a(s)
			runtime.Goexit() // t.FailNow does the same
			return nil
		})
		done <- false
	}()
	if !<-done {
		t.Error("Run returned, want Goexit")
	}
	err = torch.Run(context.Background(), th, func(s *torch.Scope) error { torchtest.Values(t, a(s).Sum(), 0, 0); return nil })
	if err != nil {
		t.Errorf("Run after a Goexit failed: %v", err)
	}
}

func TestClosedThread(t *testing.T) {
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	before := torch.LiveTensors()
	o := torch.NewOwner(th, "late")
	err = torch.Run(context.Background(), th, func(s *torch.Scope) error { o.Own(a(s)); return nil })
	if err != nil {
		t.Fatal(err)
	}
	th.Close()
	th.Close()
	if err := torch.Run(context.Background(), th, func(*torch.Scope) error { return nil }); !errors.Is(err, torch.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	o.Close()
	if n := torch.LiveTensors() - before; n != 0 {
		t.Errorf("%d live tensors, want 0", n)
	}
}

func TestNumThreads(t *testing.T) {
	was := torch.NumThreads()
	defer torch.SetNumThreads(was)
	for _, n := range []int{1, 2, was} {
		torch.SetNumThreads(n)
		torchtest.Run(t, func(*torch.Scope) {
			if got := torch.NativeThreads(); got != n {
				t.Errorf("libtorch uses %d threads, want %d", got, n)
			}
		})
	}
}

// TestNumThreadsOfOneThread checks that a Thread's own number takes precedence until it is 0.
func TestNumThreadsOfOneThread(t *testing.T) {
	th := torchtest.Thread(t)
	defer th.SetNumThreads(0)
	for _, c := range []struct{ own, want int }{{3, 3}, {0, torch.NumThreads()}} {
		th.SetNumThreads(c.own)
		err := torch.Run(t.Context(), th, func(*torch.Scope) error {
			if got := torch.NativeThreads(); got != c.want || th.NumThreads() != c.want {
				t.Errorf("SetNumThreads(%d): libtorch uses %d threads, NumThreads is %d, want %d", c.own, got, th.NumThreads(), c.want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestStartsOnOneCPU checks that the program works on one CPU, where gotorch's package initialisation sets 0 threads, which
// libtorch does not accept.
func TestStartsOnOneCPU(t *testing.T) {
	if os.Getenv("TORCH_TEST_CHILD") != "" {
		if n := runtime.NumCPU(); n != 1 {
			t.Errorf("%d CPUs, want 1", n)
		}
		if v, ok := os.LookupEnv("OMP_NUM_THREADS"); ok {
			t.Errorf("OMP_NUM_THREADS is %q, want it unset", v)
		}
		torchtest.Run(t, func(s *torch.Scope) {
			torchtest.Values(t, a(s).MatMul(b(s).Transpose(0, 1)), 0, 14, 6, -14, -6)
			if n := torch.NativeThreads(); n != 1 {
				t.Errorf("%d threads, want 1", n)
			}
		})
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, "-test.run=^TestStartsOnOneCPU$", "-test.v")
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "OMP_NUM_THREADS=") && !strings.HasPrefix(kv, "MKL_NUM_THREADS=") {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, "TORCH_TEST_CHILD=1")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the OS thread, whose affinity the child inherits, ends with the goroutine
		if err := oneCPU(); err != nil {
			done <- err
			return
		}
		done <- c.Run()
	}()
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "--- PASS: TestStartsOnOneCPU") {
		t.Errorf("the child did not run the test:\n%s", &out)
	}
}

// oneCPU restricts the calling OS thread to the first CPU that it may use.
func oneCPU() error {
	var mask [1024 / 64]uint64
	if _, _, e := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask))); e != 0 {
		return e
	}
	found := false
	for i := range mask {
		if found {
			mask[i] = 0
		} else if mask[i] != 0 {
			mask[i] &= -mask[i]
			found = true
		}
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask))); e != 0 {
		return e
	}
	return nil
}
