// Command openmanus trains language-model agents by reinforcement learning.
package main

import (
	"os"

	"github.com/openmanus/openmanus/cli"
)

func main() {
	s := cli.NewState()
	cli.ShortWaits(s)
	os.Exit(cli.Main(s))
}
