package torch

// #include "openmanus_torch.h"
import "C"

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Thread is a goroutine that stays on one OS thread and does all libtorch work of a device, because grad mode, the
// number of threads and the current GPU are state of the OS thread.
type Thread struct {
	device Device
	jobs   chan *job     // unbuffered: a sent job runs at once
	quit   chan struct{} // closed by Close
	gone   chan struct{} // closed when the goroutine has ended
	once   sync.Once
	tid    atomic.Int64 // id of the OS thread
	own    atomic.Int64 // argument of Thread.SetNumThreads

	// Only the goroutine may use the fields below.
	cur     *Scope // the innermost open scope; nil outside Run
	threads int64  // number of threads last set on this OS thread
	broken  error  // error of restarting loop after a job ended its goroutine
}

// numThreads is the value of the last SetNumThreads. Each Thread applies it before its next job.
var numThreads atomic.Int64

func init() {
	n := runtime.NumCPU() // NumCPU respects the affinity mask
	if v, err := strconv.Atoi(os.Getenv("OMP_NUM_THREADS")); err == nil && v > 0 {
		n = v
	}
	numThreads.Store(int64(n))
}

// SetNumThreads sets the number of CPU threads of one operation, on every Thread from its next Run on. The
// initial value is OMP_NUM_THREADS or, if unset, the number of CPUs that the process may use.
func SetNumThreads(n int) {
	numThreads.Store(int64(max(n, 1)))
}

// NumThreads returns the number of CPU threads that one operation may use.
func NumThreads() int { return int(numThreads.Load()) }

// NewThread starts the thread of a device. It fails if the native libraries cannot be loaded or do not match the program, or
// if the device cannot be used. The caller closes it.
func NewThread(d Device) (*Thread, error) {
	if err := load(); err != nil {
		return nil, err
	}
	var err error
	switch {
	case d.CUDA:
		if _, err = cudaDevice(d.Index); err == nil {
			err = useKernels()
		}
	case d.Protected:
		_, err = deviceCount(C.OM_PROTECTED)
	}
	if err != nil {
		return nil, err
	}
	t := &Thread{device: d, jobs: make(chan *job), quit: make(chan struct{}), gone: make(chan struct{})}
	ready := make(chan error, 1)
	go t.loop(ready)
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("start the thread of %s: %w", d, err)
	}
	return t, nil
}

// Device returns the device of the thread's tensors.
func (t *Thread) Device() Device { return t.device }

// Close waits for the running function and ends the thread; later calls of
// Run return ErrClosed. Close owners first.
func (t *Thread) Close() {
	if t.here() {
		panic("torch: Thread.Close called inside Run on the same thread, which would deadlock")
	}
	t.once.Do(func() { close(t.quit) })
	<-t.gone
}

// here reports whether the caller runs on the OS thread of t.
func (t *Thread) here() bool { return int64(syscall.Gettid()) == t.tid.Load() }

// loop runs jobs until Close. ready is nil when a job ended the previous goroutine with
// runtime.Goexit.
func (t *Thread) loop(ready chan<- error) {
	runtime.LockOSThread() // never unlocked: the OS thread and its state end with the goroutine
	t.tid.Store(int64(syscall.Gettid()))
	t.threads = 0
	kind, index := t.device.c()
	err := cerror("NewThread", C.om_use_device(kind, index))
	if ready != nil {
		ready <- err
		if err != nil {
			return
		}
	}
	t.broken = err
	for {
		select {
		case j := <-t.jobs:
			t.do(j)
		case <-t.quit:
			t.tid.Store(-1)
			close(t.gone)
			return
		}
	}
}

// SetNumThreads sets the number of CPU threads of one operation on this Thread alone, from its next Run on. With 0, the
// number is that of the process (the function SetNumThreads), as at the start.
func (t *Thread) SetNumThreads(n int) { t.own.Store(int64(n)) }

// NumThreads returns the number of CPU threads of the next Run on this Thread.
func (t *Thread) NumThreads() int { return int(cmp.Or(t.own.Load(), numThreads.Load())) }

// takeNumThreads sets this OS thread's number of threads to NumThreads.
func (t *Thread) takeNumThreads() error {
	n := int64(t.NumThreads())
	if n == t.threads {
		return nil
	}
	if err := cerror("SetNumThreads", C.om_set_num_threads(C.int64_t(n))); err != nil {
		return err
	}
	t.threads = n
	return nil
}

// nativeThreads returns libtorch's number of threads for this OS thread.
func nativeThreads() int { return int(C.om_num_threads()) }

// shareOut runs a parallel region of n chunks for tests, and returns the digits that the nested region of every chunk wrote in their
// order. Chunk bad fails.
func shareOut(n, bad int) ([]int64, error) {
	out := make([]int64, n)
	return out, cerror("shareOut", C.om_share_out(C.int64_t(n), C.int64_t(bad), (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(out)))))
}
