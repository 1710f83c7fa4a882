// Command openmanus trains language-model agents by reinforcement learning.
package main

import (
	"os"

	"github.com/openmanus/openmanus/cli"
)

func main() {
	s := cli.NewState()
	if code, ok := cli.Watchdog(s); ok {
		os.Exit(code)
	}
	os.Exit(cli.Main(s))
}
