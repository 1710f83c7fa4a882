package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/openmanus/openmanus/torch"
)

// untested is the advice about GPUs.
const untested = "openmanus is developed and tested on CPUs; its CUDA code has never been run: check it with torch/gpu_check.sh before you rely on it"

// driverLibraries are the places of the driver's library in distributions and containers.
var driverLibraries = []string{"/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1", "/usr/lib/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}

func gpu(_ context.Context, m *Machine) []Finding {
	devices := m.glob("/dev/nvidia[0-9]*")
	driver := driverVersion(m.read(driverFile))
	var library string
	for _, path := range driverLibraries {
		if found := m.glob(path); len(found) > 0 {
			library = path
		}
	}
	if len(devices) == 0 && driver == "" {
		return []Finding{ok("GPU", "none: openmanus computes on the CPU")}
	}
	f := Finding{Name: "GPU", Level: Warn, Advice: untested}
	f.Value = fmt.Sprintf("%d NVIDIA device(s), driver %s", len(devices), driver)
	switch {
	case len(devices) == 0:
		f.Value += ", no /dev/nvidia0"
		f.Advice = "the container lacks the device files: start it with --gpus all. " + untested
	case driver == "":
		f.Value = fmt.Sprintf("%d NVIDIA device file(s), no driver", len(devices))
		f.Advice = "load NVIDIA's driver. " + untested
	case library == "":
		f.Value += ", no libcuda.so.1"
		f.Advice = "install the driver's user libraries, or start the container with --gpus all. " + untested
	default:
		if d, err := torch.AutoDevice(); err != nil {
			f.Value += ", not usable: " + err.Error()
		} else {
			f.Value += ", usable as " + d.String()
		}
	}
	return []Finding{f}
}

// driverFile describes the driver in the running kernel.
const driverFile = "/proc/driver/nvidia/version"

// DriverVersion returns the version of NVIDIA's driver in the running kernel, "" if there is none.
func DriverVersion() string {
	text, _ := os.ReadFile(driverFile)
	return driverVersion(string(text))
}

// driverVersion returns the version in /proc/driver/nvidia/version, such as 570.86.10.
func driverVersion(text string) string {
	for word := range strings.FieldsSeq(text) {
		if strings.Count(word, ".") >= 1 && word[0] >= '0' && word[0] <= '9' {
			return word
		}
	}
	return ""
}
