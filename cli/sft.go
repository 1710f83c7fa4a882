package cli

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs"
)

// parseSFT returns the configuration of `openmanus sft`, which takes train's
// flags: the same files describe both, and sft stops where train's warm start
// ends.
func (s *State) parseSFT(c *cli.Context) (configs.Config, error) {
	cfg, err := s.parseTrain(c)
	if err == nil && cfg.SFT.Epochs == 0 {
		return cfg, errWith(ExitInput, "set sft.epochs to at least 1, in the file or with --set sft.epochs=1",
			errors.New("sft.epochs is 0: nothing to train"))
	}
	return cfg, err
}
