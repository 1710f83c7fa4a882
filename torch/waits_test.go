package torch_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// TestShortWaits checks that libgomp polls for a short time, unless the environment sets the wait time, and that child
// processes do not inherit the setting.
func TestShortWaits(t *testing.T) {
	if os.Getenv("OPENMANUS_TEST_SHORT_WAITS") != "" {
		before := os.Getenv("GOMP_SPINCOUNT")
		if _, err := torch.Version(); err != nil { // libgomp prints its settings while it is loaded
			t.Fatal(err)
		}
		if after := os.Getenv("GOMP_SPINCOUNT"); after != before {
			t.Errorf("GOMP_SPINCOUNT was %q and is %q after loading", before, after)
		}
		return
	}
	for _, tt := range []struct{ set, want string }{
		{"", "GOMP_SPINCOUNT = '2000'"},
		{"GOMP_SPINCOUNT=7", "GOMP_SPINCOUNT = '7'"},
		{"OMP_WAIT_POLICY=active", "OMP_WAIT_POLICY = 'ACTIVE'"},
	} {
		t.Run(tt.set, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestShortWaits$", "-test.v")
			for _, kv := range os.Environ() {
				if !strings.HasPrefix(kv, "GOMP_SPINCOUNT=") && !strings.HasPrefix(kv, "OMP_WAIT_POLICY=") {
					cmd.Env = append(cmd.Env, kv)
				}
			}
			cmd.Env = append(cmd.Env, "OPENMANUS_TEST_SHORT_WAITS=1", "OMP_DISPLAY_ENV=VERBOSE", tt.set)
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), tt.want) != 1 {
				t.Errorf("error %v, want %s in the output:\n%s", err, tt.want, out)
			}
		})
	}
}
