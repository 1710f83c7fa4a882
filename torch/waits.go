package torch

import (
	"fmt"
	"os"
	"syscall"
)

// spins is the number of times that a thread polls for work before it sleeps. The polls take 20 to
// 200 µs, longer than the usual gap between two operations.
const spins = "2000"

// ShortWaits shortens the time that libtorch's threads spin while they wait for each other. libgomp's default is several
// milliseconds; if other processes use the same cores, a spinning thread takes the CPU from the thread that it waits for,
// and operations become several times slower. libgomp reads its settings from the environment before main, so
// ShortWaits sets GOMP_SPINCOUNT and executes the program again in the same process. It returns nil without doing so if
// GOMP_SPINCOUNT or OMP_WAIT_POLICY is set. Call it on the first line of main.
func ShortWaits() error {
	for _, name := range []string{"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} {
		if os.Getenv(name) != "" {
			return nil
		}
	}
	env := append(os.Environ(), "GOMP_SPINCOUNT="+spins)
	if err := syscall.Exec("/proc/self/exe", os.Args, env); err != nil {
		return fmt.Errorf("restart with GOMP_SPINCOUNT=%s: %w; set GOMP_SPINCOUNT in the environment to avoid slow operations on busy cores", spins, err)
	}
	return nil
}
