package torch_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/torch"
)

func TestParseDevice(t *testing.T) {
	auto, err := torch.AutoDevice()
	if err != nil && auto.CUDA {
		t.Errorf("AutoDevice = %v, error %v", auto, err)
	}
	for _, test := range []struct {
		in, want, err string
	}{
		{"cpu", "cpu", ""},
		{"auto", auto.String(), ""},
		{"gpu", "", "unknown device"},
		{"cuda:x", "", "must be the number of a GPU"},
		{"cuda:-1", "", "must be the number of a GPU"},
	} {
		t.Run(test.in, func(t *testing.T) {
			d, err := torch.ParseDevice(test.in)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, %v; want an error with %q", d, err, test.err)
				}
				return
			}
			if err != nil || d.String() != test.want {
				t.Errorf("got %v, %v; want %s", d, err, test.want)
			}
		})
	}
	t.Run("cuda where there is none", func(t *testing.T) {
		if auto.CUDA {
			t.Skip("this machine has a GPU")
		}
		_, err := torch.ParseDevice("cuda")
		if err == nil || !strings.Contains(err.Error(), "no CUDA device") || !strings.Contains(err.Error(), "--device cpu") ||
			!strings.Contains(err.Error(), "build.sh cuda") || !strings.Contains(err.Error(), ": cannot open shared object file") {
			t.Errorf("ParseDevice(cuda): error %v", err)
		}
		if _, err := torch.NewThread(torch.Device{CUDA: true}); err == nil {
			t.Error("NewThread made a thread for a device that does not exist")
		}
	})
}

func TestParseDType(t *testing.T) {
	for d := torch.Float32; d <= torch.Bool; d++ {
		if got, err := torch.ParseDType(d.String()); err != nil || got != d {
			t.Errorf("ParseDType(%v) = %v, error %v", d, got, err)
		}
	}
	if _, err := torch.ParseDType("float8"); err == nil || !strings.Contains(err.Error(), `"float8"; use one of float32, `) {
		t.Errorf("ParseDType(float8): error %v", err)
	}
}

// TestProtectedDevice checks that the device computes, counts its operations and transfers, rejects operands of two devices,
// and leaves its memory inaccessible.
func TestProtectedDevice(t *testing.T) {
	d, err := torch.ParseDevice("protected")
	if err != nil || d.String() != "protected" {
		t.Fatalf("ParseDevice = %v, %v", d, err)
	}
	th, err := torch.NewThread(d)
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	const n = 1 << 30
	err = torch.Run(t.Context(), th, func(s *torch.Scope) error {
		before, closed := torch.ProtectedCounts(), inaccessible(t)
		x := s.Float32s([]float32{1, 2, 3}, 3)
		y := x.Square().Narrow(0, 1, 2).Sum()
		if got := y.Item(); got != 13 {
			t.Errorf("the sum is %v, want 13", got)
		}
		now := torch.ProtectedCounts()
		if now.Operations-before.Operations != 2 || now.Uploads-before.Uploads != 1 || now.Downloads-before.Downloads != 1 {
			t.Errorf("counts %+v, before %+v; want 2 operations, an upload and a download more", now, before)
		}
		s.Empty(torch.Float32, n/4)
		// Half is enough: Go's runtime opens memory that it has reserved at the same time.
		if grown := inaccessible(t) - closed; grown < n/2 {
			t.Errorf("%d bytes more are inaccessible, want about %d", grown, n)
		}
		m, err := d.Memory()
		if err != nil || m.Total <= 0 || m.Free != m.Total-m.Allocated || m.Allocated < n || m.Peak < m.Allocated {
			t.Errorf("memory %+v, error %v", m, err)
		}
		torch.RMSNorm(x, x.ToDevice(torch.Device{}), 1e-6)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "rmsnorm: the operands are on protected:0 and cpu") {
		t.Errorf("operands of two devices: error %v", err)
	}
}

// TestDeviceOutOfMemory checks the error of a tensor that does not fit.
func TestDeviceOutOfMemory(t *testing.T) {
	th, err := torch.NewThread(torch.Device{Protected: true})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	err = torch.Run(t.Context(), th, func(s *torch.Scope) error {
		s.Empty(torch.Float32, 1<<34)
		return nil
	})
	if e, ok := errors.AsType[*torch.Error](err); !ok || !e.OutOfMemory() {
		t.Errorf("error %v, want one that reports too little memory", err)
	}
}

// inaccessible returns the bytes of the process's memory that it may not read.
func inaccessible(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(rights, "---") {
			n += int(to - from)
		}
	}
	return n
}

// TestDeviceSeconds checks that the time of jobs is counted once, and that a job that fails does not disturb it.
func TestDeviceSeconds(t *testing.T) {
	th, err := torch.NewThread(torch.Device{Protected: true})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	seconds := func() float64 {
		s, err := th.DeviceSeconds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	seconds()
	const jobs, pause = 3, 20 * time.Millisecond
	for i := range jobs {
		err := torch.Run(t.Context(), th, func(s *torch.Scope) error {
			time.Sleep(pause)
			if i == 1 {
				s.Zeros(torch.Float32, 2).Item()
			}
			return nil
		})
		if (err != nil) != (i == 1) {
			t.Fatalf("job %d: error %v", i, err)
		}
	}
	if got, least := seconds(), (jobs * pause).Seconds(); got < least {
		t.Errorf("%d jobs took %v s, want at least %v", jobs, got, least)
	}
	if got := seconds(); got >= pause.Seconds() {
		t.Errorf("without a job %v s are counted", got)
	}
}
