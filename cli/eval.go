package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

func evalCommand(s *State) *cli.Command {
	cmd := leaf(s, &cli.Command{
		Name:      "eval",
		Usage:     "play tasks and report how many were solved",
		ArgsUsage: "[CONFIG.toml]",
		Flags:     evalFlags(),
	}, 1, runEval)
	cmd.Subcommands = []*cli.Command{compareCommand(s)}
	return cmd
}

// evalOptions are the command line of `openmanus eval`.
type evalOptions struct {
	playOptions
	JSON     bool
	Out      string  // file of the result, as JSON; "": none
	Episodes string  // dump of the episodes; "": none
	Force    bool    // replace files that exist
	MaxLost  float64 // share of the episodes that may be lost
	DryRun   bool    // open everything, play nothing
}

func evalFlags() []cli.Flag {
	return append([]cli.Flag{
		jsonFlag(),
		&cli.StringFlag{Name: "episodes", Usage: "`FILE` for the episodes, as openmanus rollout writes them, without the HTTP exchanges"},
		&cli.StringFlag{Name: "out", Usage: "`FILE` for the result as JSON, for eval compare"},
		&cli.BoolFlag{Name: "force", Usage: "replace files of --out and --episodes that exist"},
		maxLostFlag(),
		&cli.BoolFlag{Name: "dry-run", Usage: "open everything and print the contract, but play nothing"},
	}, playFlags()...)
}

// parseEval reads the flags of evalFlags.
func (s *State) parseEval(c *cli.Context) (evalOptions, error) {
	f := flagFaults{}
	play, err := s.parsePlay(c, &f)
	o := evalOptions{
		playOptions: play, JSON: c.Bool("json"), Out: c.String("out"), Episodes: c.String("episodes"), Force: c.Bool("force"),
		MaxLost: c.Float64("max-lost"), DryRun: c.Bool("dry-run"),
	}
	if err != nil {
		return o, err
	}
	f.maxLost(o.MaxLost)
	return o, f.err()
}

func runEval(ctx context.Context, s *State, c *cli.Context) (err error) {
	o, err := s.parseEval(c)
	if err != nil {
		return err
	}
	for _, file := range []string{o.Out, o.Episodes} {
		if err := s.newFile(file, o.Force); err != nil {
			return err
		}
	}
	p, err := s.openPlaying(ctx, o.playOptions)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return err
	}
	contract, err := s.contract(ctx, p, o.playOptions)
	if err != nil {
		return err
	}
	if o.DryRun {
		return s.printContract(contract, o.JSON)
	}
	weights, err := p.weights(ctx)
	if err != nil {
		return err
	}
	episodes, met, err := s.evaluate(ctx, p, o, weights, contract)
	if err != nil {
		return err
	}
	r := eval.New(o.env().Name, eval.Tasks(episodes, p.world.Spec.Family), o.samples(), o.Trainer.Seed)
	r.Model, r.Weights, r.Contract, r.Infrastructure = o.Model.Path, weights, contract, met
	if p.endpoint != nil {
		r.Model, r.Usage = o.Rollout.API.Model, p.endpoint.Usage()
	}
	if o.Out != "" {
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		if err := s.WriteFile(o.Out, append(text, '\n'), o.Force); err != nil {
			return errext.With(errext.Disk, "", err)
		}
	}
	return s.printEval(r, o.JSON)
}

// evaluate plays, and writes the episodes where that was asked.
func (s *State) evaluate(ctx context.Context, p *playing, o evalOptions, weights string, contract eval.Contract) (episodes []*data.Episode, met eval.Infrastructure, err error) {
	var w *dump.Writer
	if o.Episodes != "" {
		options := dumpOptions(o.playOptions, p)
		options["contract"] = contract
		if w, err = dump.Create(s.Path(o.Episodes), dump.Header{Weights: weights, Options: options}); err != nil {
			return nil, met, errext.With(errext.Disk, "", err)
		}
		defer func() { err = errors.Join(err, errext.With(errext.Disk, "", w.Close())) }()
	}
	return s.play(ctx, p, o.playOptions, func(ro *rollout.Options) {
		ro.MaxFailed = maxFailed(o.MaxLost)
		if w != nil {
			ro.OnEpisode = func(ep *data.Episode) error { return errext.With(errext.Disk, "", w.Write(ep)) }
		}
	})
}

// printEval writes a result to standard output, as JSON where a script asked.
func (s *State) printEval(r eval.Result, asJSON bool) error {
	if asJSON {
		return s.printJSON(r)
	}
	return s.print([]byte(r.String()))
}

func (s *State) printContract(c eval.Contract, asJSON bool) error {
	if asJSON {
		return s.printJSON(c)
	}
	return s.print([]byte(c.String()))
}
