package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch/dist"
)

// wire connects two network namespaces, which stand for two machines. It forwards IP packets between two TUN devices.
type wire struct {
	names  [2]string // of the namespaces
	broken atomic.Bool
}

// wires counts the calls of newWire, whose devices have different names.
var wires atomic.Int64

// address returns the IP address of a machine.
func (*wire) address(machine int) string { return fmt.Sprintf("10.77.0.%d", machine+1) }

// newWire makes two network namespaces and a wire that delays each packet. It skips the test without the privileges.
func newWire(t *testing.T, delay time.Duration) *wire {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	l, number := &wire{}, wires.Add(1)
	var ends [2]*os.File
	var wg sync.WaitGroup
	t.Cleanup(func() {
		for _, f := range ends {
			if f != nil {
				_ = f.Close() // the device has no state
			}
		}
		wg.Wait()
		for _, name := range l.names {
			_ = exec.Command("ip", "netns", "delete", name).Run() // it may not exist
		}
	})
	for i := range ends {
		l.names[i] = fmt.Sprintf("openmanus-%d-%d-%d", os.Getpid(), number, i)
		device := fmt.Sprintf("om%d-%d-%d", os.Getpid()%100000, number, i)
		f, err := openTUN(device)
		if err != nil {
			t.Skipf("TUN devices are not available: %v", err)
		}
		ends[i] = f
		for _, args := range []string{
			"netns add " + l.names[i],
			"link set " + device + " netns " + l.names[i],
			"-n " + l.names[i] + " link set lo up",
			"-n " + l.names[i] + " address add " + l.address(i) + "/24 dev " + device,
			"-n " + l.names[i] + " link set " + device + " up",
		} {
			if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
				t.Skipf("network namespaces are not available: ip %s: %v: %s", args, err, out)
			}
		}
	}
	type packet struct {
		due  time.Time
		data []byte
	}
	for i := range ends {
		queue := make(chan packet, 1<<16)
		wg.Go(func() {
			defer close(queue)
			buffer := make([]byte, 1<<16)
			for {
				n, err := ends[i].Read(buffer)
				if err != nil {
					return
				}
				queue <- packet{time.Now().Add(delay), bytes.Clone(buffer[:n])}
			}
		})
		wg.Go(func() {
			for p := range queue {
				time.Sleep(time.Until(p.due))
				if !l.broken.Load() {
					_, _ = ends[1-i].Write(p.data) // a lost packet is sent again
				}
			}
		})
	}
	return l
}

// openTUN makes a network device whose packets are read from and written to the file.
func openTUN(name string) (*os.File, error) {
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var request struct { // struct ifreq
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], name)
	request.flags = syscall.IFF_TUN | syscall.IFF_NO_PI
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TUNSETIFF, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return nil, errors.Join(errno, syscall.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// start starts a rank on each machine: a trainer on the first, a worker on the second.
func (l *wire) start(t *testing.T, dir string, args ...string) [2]*process {
	t.Helper()
	var ps [2]*process
	for rank := range ps {
		variables := dist.Env{Rank: rank, Size: 2, LocalSize: 1, Host: l.address(0), Port: 29500}.Variables()
		ps[rank] = startedBy(t, dir, variables, append([]string{"ip", "netns", "exec", l.names[rank], "openmanus"}, args...)...)
	}
	return ps
}

// TestTwoMachines trains on one machine and plays on another, which answers after 200 ms. It checks that the run trains as
// one process does, and that both processes end with an error within the time-out after the link breaks.
func TestTwoMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("this test waits for a slow network")
	}
	args := []string{"train", "run.toml", "--set", "sft.epochs=2", "--set", "trainer.total_steps=2"}
	t.Parallel()
	t.Run("200 ms", func(t *testing.T) {
		t.Parallel()
		l := newWire(t, 100*time.Millisecond)
		one, two := trained(t, args...), learningFolder(t)
		for rank, p := range l.start(t, two, append(args, "--set", "dist.rollout_processes=1")...) {
			if code := p.code(t); code != 0 {
				t.Fatalf("rank %d: exit code %d\n%s", rank, code, &p.out)
			}
		}
		closeRuns(t, one, two)
	})
	t.Run("a broken link", func(t *testing.T) {
		t.Parallel()
		l := newWire(t, 0)
		dir := learningFolder(t)
		ps := l.start(t, dir, append(args, "--set", "trainer.total_steps=100000", "--set", "dist.rollout_processes=1", "--set", "dist.timeout_s=10", "--set", "trainer.test_every=0")...)
		ps[0].signalOnce(t, func() bool { return bytes.Contains(metricsText(dir), []byte(`"training/global_step":2`)) }, func() { l.broken.Store(true) })
		for rank, p := range ps {
			if code := p.code(t); code != int(errext.Native) {
				t.Errorf("rank %d: exit code %d, want %d\n%s", rank, code, errext.Native, &p.out)
			}
			mustContain(t, fmt.Sprintf("stderr of rank %d", rank), p.out.String(), fmt.Sprintf("rank %d", 1-rank), "time-out 10 s")
		}
	})
}
