package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
)

func rolloutCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "rollout",
		Usage:     "play tasks and write every episode, token by token, to a file",
		ArgsUsage: "[CONFIG.toml]",
		Flags:     rolloutFlags(),
	}, 1, runRollout)
}

// rolloutOptions are the command line of `openmanus rollout`.
type rolloutOptions struct {
	taskOptions
	Dump  string // file of the episodes, one JSON line each
	Force bool   // replace a dump that exists
}

func rolloutFlags() []cli.Flag {
	return append(taskFlags(),
		&cli.StringFlag{Name: "dump", Usage: "`FILE` for the episodes: a header, then one JSON line each"},
		&cli.BoolFlag{Name: "force", Usage: "replace a dump that exists"})
}

// parseRollout reads the flags of rolloutFlags.
func parseRollout(c *cli.Context) (rolloutOptions, error) {
	tasks, err := parseTasks(c)
	o := rolloutOptions{taskOptions: tasks, Dump: c.String("dump"), Force: c.Bool("force")}
	if o.Dump == "" {
		f := flagFaults{}
		if err != nil {
			f.errs = append(f.errs, err)
		}
		f.add("dump", "missing; give the file the episodes go to")
		err = f.err()
	}
	return o, err
}

// runRollout writes episodes as they end, so that an interrupted rollout keeps
// what was played; with --deterministic they are written in order at the end.
func runRollout(ctx context.Context, s *State, c *cli.Context) (err error) {
	if err := s.fillFromConfig(c); err != nil {
		return err
	}
	o, err := parseRollout(c)
	if err != nil {
		return err
	}
	if err := s.newFile(o.Dump, o.Force); err != nil {
		return err
	}
	p, err := s.openPlaying(ctx, o.taskOptions)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return err
	}
	hash, err := p.weights(ctx)
	if err != nil {
		return err
	}
	header := data.DumpHeader{Weights: hash, Options: dumpOptions(o)}
	if o.Deterministic {
		episodes, err := s.play(ctx, p, o.taskOptions, func(ro *rollout.Options) { ro.Exchanges = true })
		if err != nil {
			return err
		}
		return errWith(ExitDisk, "", data.WriteDump(s.Path(o.Dump), header, episodes))
	}
	dump, err := data.CreateDump(s.Path(o.Dump), header)
	if err != nil {
		return errWith(ExitDisk, "", err)
	}
	_, err = s.play(ctx, p, o.taskOptions, func(ro *rollout.Options) {
		ro.Exchanges = true
		ro.OnEpisode = func(ep *data.Episode) error {
			return errWith(ExitDisk, "the episodes before are in the file", dump.Write(ep))
		}
	})
	return errors.Join(err, errWith(ExitDisk, "", dump.Close()))
}

// newFile refuses a file that exists, where it is not to be replaced, before
// anything is done. No file at all is right.
func (s *State) newFile(path string, replace bool) error {
	if path == "" || replace {
		return nil
	}
	_, err := s.Stat(path)
	switch {
	case err == nil:
		return errWith(ExitUsage, "choose another name, or give --force to replace it", fmt.Errorf("%s exists", path))
	case !errors.Is(err, fs.ErrNotExist):
		return errWith(ExitDisk, "", err)
	}
	return nil
}

// dumpOptions are what a reader needs to play the same again.
func dumpOptions(o rolloutOptions) map[string]any {
	options := map[string]any{
		"model": o.Model, "dtype": o.Dtype, "env": o.Env, "tasks": o.Tasks, "skip_tasks": o.Skip, "samples": o.Samples,
		"max_turns": o.MaxTurns, "max_new_tokens": o.MaxNewTokens, "max_context_tokens": o.MaxContextTokens,
		"max_obs_tokens": o.MaxObsTokens, "temperature": o.Temperature, "greedy": o.Greedy, "top_p": o.TopP,
		"top_k": o.TopK, "seed": o.Seed, "format": o.Format, "parser": o.Parser, "action_format": o.ActionFormat, "deterministic": o.Deterministic,
	}
	o.Endpoint.inDumps(options)
	return options
}
