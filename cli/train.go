package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs"
)

// trainFlags are the flags of `openmanus train`; its argument is a
// configuration file, and without one it runs the quickstart.
func trainFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "preset", Usage: "a built-in configuration instead of a file"},
		setFlag(),
		&cli.StringFlag{Name: "device", Usage: "auto, cpu, cuda or cuda:N; overrides model.device"},
	}
}

// parseTrain returns the configuration the command line describes. --set and
// --device overrule the file.
func (s *State) parseTrain(c *cli.Context) (configs.Config, error) {
	sets := c.StringSlice("set")
	if d := c.String("device"); d != "" {
		f := flagFaults{}
		f.device(d)
		if err := f.err(); err != nil {
			return configs.Config{}, err
		}
		sets = append(sets, "model.device="+d)
	}
	cfg, err := s.loadConfig(c.Args().First(), c.String("preset"), sets)
	if err == nil {
		s.ConfigLevel(cfg.Log.Level)
	}
	return cfg, err
}
