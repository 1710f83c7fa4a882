package torch

import (
	"fmt"
	"os"
	"syscall"
)

// spins is how often a thread of libtorch looks for new work before it sleeps: some 20 to 200 µs, enough for the next
// operation to come.
const spins = "2000"

// ShortWaits keeps libtorch's threads from spinning for milliseconds while they wait for each other, as libgomp has them
// do. Where other processes want the same cores, such a thread burns the time that the one it waits for needs, and
// everything takes several times as long. libgomp reads its settings from the environment before any code of the program
// runs, so ShortWaits sets GOMP_SPINCOUNT and starts the program again in the same process; it returns if nothing is to be
// done, because GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, or if that fails. It is for the first line of main.
func ShortWaits() error {
	for _, name := range []string{"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} {
		if os.Getenv(name) != "" {
			return nil
		}
	}
	env := append(os.Environ(), "GOMP_SPINCOUNT="+spins)
	if err := syscall.Exec("/proc/self/exe", os.Args, env); err != nil {
		return fmt.Errorf("starting again with GOMP_SPINCOUNT=%s: %w; set it yourself, or other processes on these cores slow this one down", spins, err)
	}
	return nil
}
