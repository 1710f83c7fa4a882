package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
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
	playOptions
	JSON      bool
	Dump      string  // file of the episodes, one JSON line each
	Continue  bool    // go on with a dump that exists
	RetryLost bool    // and play again what the infrastructure lost
	Force     bool    // replace a dump that exists
	MaxLost   float64 // share of the episodes that may be lost
}

func rolloutFlags() []cli.Flag {
	return append(playFlags(),
		jsonFlag(),
		&cli.StringFlag{Name: "dump", Usage: "`FILE` for the episodes: a header, then one JSON line each; compressed where the name ends in .zst"},
		&cli.BoolFlag{Name: "continue", Usage: "go on with a dump that exists: play what it does not hold yet"},
		&cli.BoolFlag{Name: "retry-lost", Usage: "with --continue: take the episodes that the infrastructure lost out of the dump, and play them again"},
		maxLostFlag(),
		&cli.BoolFlag{Name: "force", Usage: "replace a dump that exists"})
}

// parseRollout reads the flags of rolloutFlags.
func (s *State) parseRollout(c *cli.Context) (rolloutOptions, error) {
	f := flagFaults{}
	play, err := s.parsePlay(c, &f)
	o := rolloutOptions{
		playOptions: play, JSON: c.Bool("json"), Dump: c.String("dump"), Continue: c.Bool("continue"), RetryLost: c.Bool("retry-lost"),
		Force: c.Bool("force"), MaxLost: c.Float64("max-lost"),
	}
	if err != nil {
		return o, err
	}
	if o.Dump == "" {
		f.add("dump", "missing; give the file the episodes go to")
	}
	if o.Continue && o.Force {
		f.add("continue", "--force, which replaces the dump, is given as well: take out one of the two")
	}
	if o.RetryLost && !o.Continue {
		f.add("retry-lost", "it is about a dump that exists: give --continue as well")
	}
	f.maxLost(o.MaxLost)
	return o, f.err()
}

// runRollout writes episodes as they end, or wave by wave with
// --deterministic, so that a rollout that ends early, however it ends, keeps
// what was played.
func runRollout(ctx context.Context, s *State, c *cli.Context) (err error) {
	o, err := s.parseRollout(c)
	if err != nil {
		return err
	}
	if err := s.newFile(o.Dump, o.Force || o.Continue); err != nil {
		var known *errext.Error
		if errors.As(err, &known) && known.Code == errext.Usage {
			known.Hint = "give --continue to go on with it, --force to replace it, or choose another name"
		}
		return err
	}
	if o.Continue {
		o.Day = run.DumpDay(s.Path(o.Dump))
	}
	p, err := s.openPlaying(ctx, o.playOptions)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return err
	}
	hash, err := p.weights(ctx)
	if err != nil {
		return err
	}
	options := dumpOptions(o.playOptions, p)
	options[dump.TasksOption] = tasksPart(p.tasks)
	dump, played, err := s.openDump(o, dump.Header{Weights: hash, Options: options})
	if err != nil {
		return err
	}
	r := rolloutResult{Env: o.env().Name, Dump: o.Dump, Before: played.outcomes.episodes(), Of: len(p.tasks) * o.samples()}
	r.Infrastructure, err = s.playInto(ctx, p, o, dump, played)
	r.Episodes, r.Lost, r.Outcomes = played.outcomes.episodes(), played.outcomes.lost(), played.outcomes
	return errors.Join(err, errext.With(errext.Disk, "", dump.Close()), s.printRollout(r, o.JSON))
}

// playInto plays what a dump does not hold yet, and writes it there. It also
// tells what the servers did on the way.
func (s *State) playInto(ctx context.Context, p *playing, o rolloutOptions, dump *dump.Writer, played playedBefore) (eval.Infrastructure, error) {
	total, before := len(p.tasks)*o.samples(), played.outcomes.episodes()
	if lost := played.outcomes.lost(); float64(lost) > o.MaxLost*float64(total) {
		code := errext.Env
		if p.endpoint == nil && played.outcomes[data.EnvError] == 0 {
			code = errext.Native
		}
		return eval.Infrastructure{}, errext.With(code, "give --retry-lost to play them again, or raise --max-lost",
			fmt.Errorf("%s: %d of %d episodes were lost to the servers or the engine before", o.Dump, lost, total))
	}
	lostBefore := played.outcomes.lost()
	write := func(episodes ...*data.Episode) error {
		if err := dump.Write(episodes...); err != nil {
			return errext.With(errext.Disk, "make room: the episodes before are in the file, and --continue plays the others", err)
		}
		for _, ep := range episodes {
			played.outcomes.add(ep)
		}
		return nil
	}
	_, met, err := s.play(ctx, p, o.playOptions, func(ro *rollout.Options) {
		ro.Exchanges = true
		ro.MaxFailed = maxFailed(o.MaxLost)
		ro.Before.Episodes, ro.Before.Failed = before, lostBefore
		ro.Starts = played.starts
		ro.Skip = func(uid string, sample int) bool { return played.episodes[episodeKey{uid, sample}] }
		if o.Rollout.Deterministic {
			ro.OnWave = func(wave []*data.Episode) error {
				for _, ep := range wave {
					ep.Wave += played.waves
				}
				return write(wave...)
			}
			return
		}
		ro.OnEpisode = func(ep *data.Episode) error {
			if ep.Outcome == data.Cancelled { // --continue plays it
				return nil
			}
			return write(ep)
		}
	})
	var failed *rollout.FailedError
	if errors.As(err, &failed) {
		err = errext.With(run.CodeOf(ctx, err), "see to it, then --continue --retry-lost plays what is missing and what was lost; or raise --max-lost", err)
	}
	return met, err
}

// rolloutResult is what `openmanus rollout` says at its end: what the dump
// holds, and what the servers did while it was filled by this command.
type rolloutResult struct {
	Env      string `json:"env"`
	Dump     string `json:"dump"`
	Before   int    `json:"before"`   // episodes that the dump held already
	Episodes int    `json:"episodes"` // that it holds now
	Of       int    `json:"of"`       // that were asked for
	Lost     int    `json:"lost"`     // by the infrastructure
	Outcomes tally  `json:"outcomes"`
	eval.Infrastructure
}

// String is the result for people: one line, and another where servers failed.
func (r rolloutResult) String() string {
	line := fmt.Sprintf("%s: %d of %d episodes, %d lost", r.Dump, r.Episodes, r.Of, r.Lost)
	if len(r.Outcomes) > 0 {
		line += ": " + r.Outcomes.String()
	}
	return line + "\n" + r.Line()
}

// printRollout writes a result to standard output, as JSON where a script
// asked, unless that is where the dump goes.
func (s *State) printRollout(r rolloutResult, asJSON bool) error {
	switch r.Dump {
	case "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1":
		return nil
	}
	if asJSON {
		return s.printJSON(r)
	}
	return s.print([]byte(r.String()))
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
		return errext.With(errext.Usage, "choose another name, or give --force to replace it", fmt.Errorf("%s exists", path))
	case !errors.Is(err, fs.ErrNotExist):
		return errext.With(errext.Disk, "", err)
	}
	return nil
}

// episodeKey names an episode of a dump.
type episodeKey struct {
	uid    string
	sample int
}

// playedBefore is what a dump that is continued holds.
type playedBefore struct {
	episodes map[episodeKey]bool
	outcomes tally
	waves    int
	starts   map[string]rollout.Start // of its groups
}

// openDump starts the dump, or goes on with it.
func (s *State) openDump(o rolloutOptions, h dump.Header) (*dump.Writer, playedBefore, error) {
	played := playedBefore{episodes: map[episodeKey]bool{}, outcomes: tally{}, starts: map[string]rollout.Start{}}
	if !o.Continue {
		dump, err := dump.Create(s.Path(o.Dump), h)
		return dump, played, errext.With(errext.Disk, "", err)
	}
	h, err := run.HeaderToContinue(&s.Host, o.Dump, h)
	if err != nil {
		return nil, played, err
	}
	again := 0
	drop := func(ep *data.Episode) bool {
		lost := o.RetryLost && !ep.Outcome.Trainable()
		if lost {
			again++
		}
		return lost
	}
	dump, err := dump.Continue(s.Path(o.Dump), h, drop, func(ep *data.Episode) error {
		key := episodeKey{ep.UID, ep.Sample}
		if played.episodes[key] {
			return fmt.Errorf("%s, sample %d, is there twice: another program wrote to it", ep.Task.ID, ep.Sample)
		}
		played.episodes[key] = true
		played.waves = max(played.waves, ep.Wave)
		played.outcomes.add(ep)
		maps.Copy(played.starts, rollout.StartsOf([]*data.Episode{ep}))
		return nil
	})
	if err != nil {
		return nil, played, errext.With(errext.Input, "", err)
	}
	s.Log.Info("going on with the dump", "file", o.Dump, "episodes", len(played.episodes), "again", again)
	if lost := played.outcomes.lost(); lost > 0 {
		s.Log.Warn("episodes of the dump failed for reasons outside of them and stay as they are; --retry-lost plays them again", "episodes", lost)
	}
	return dump, played, nil
}
