package torch_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// TestShortWaits checks that ShortWaits restarts the process once, unless the environment sets the wait time.
func TestShortWaits(t *testing.T) {
	if os.Getenv("OPENMANUS_TEST_SHORT_WAITS") != "" {
		if err := torch.ShortWaits(); err != nil {
			t.Fatal(err)
		}
		t.Logf("spins %q, policy %q", os.Getenv("GOMP_SPINCOUNT"), os.Getenv("OMP_WAIT_POLICY"))
		return
	}
	for _, tt := range []struct{ set, want string }{
		{"", `spins "2000", policy ""`},
		{"GOMP_SPINCOUNT=7", `spins "7", policy ""`},
		{"OMP_WAIT_POLICY=active", `spins "", policy "active"`},
	} {
		t.Run(tt.set, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestShortWaits$", "-test.v")
			for _, kv := range os.Environ() {
				if !strings.HasPrefix(kv, "GOMP_SPINCOUNT=") && !strings.HasPrefix(kv, "OMP_WAIT_POLICY=") {
					cmd.Env = append(cmd.Env, kv)
				}
			}
			cmd.Env = append(cmd.Env, "OPENMANUS_TEST_SHORT_WAITS=1", tt.set)
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), tt.want) != 1 {
				t.Errorf("error %v, want %s in the output:\n%s", err, tt.want, out)
			}
		})
	}
}
