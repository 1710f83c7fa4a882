package torch_test

import (
	"strings"
	"testing"

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
			!strings.Contains(err.Error(), "gpu_check.sh --env") {
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
