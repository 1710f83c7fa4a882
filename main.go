// Command openmanus trains language-model agents by reinforcement learning.
package main

import (
	"os"

	"github.com/openmanus/openmanus/cli"
)

func main() {
	os.Exit(cli.Main(cli.NewState()))
}
