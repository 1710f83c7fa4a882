package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
)

func playCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "play",
		Usage:     "show one episode turn by turn, and act in it yourself",
		ArgsUsage: "[RUN|MODEL]",
		Description: "A run gives the environment, the prompt format, the instruction and the limits. Before each turn, Enter lets the agent act,\n" +
			"a typed line is your action instead, a lets the agent act to the end, and q ends the episode.",
		Flags: slices.Concat([]cli.Flag{
			&cli.IntFlag{Name: "task", Usage: "index of the task; default: the first validation task of the run, or 0"},
			&cli.BoolFlag{Name: "me", Usage: "play all turns yourself, without a model"},
			&cli.BoolFlag{Name: "auto", Usage: "let the agent act to the end without asking"},
			&cli.StringFlag{Name: "dump", Usage: "`FILE` for the episode, as openmanus rollout writes it"},
			&cli.BoolFlag{Name: "force", Usage: "replace a dump that exists"},
		}, flagsOf(liveKeys()), []cli.Flag{serverLogsFlag()}),
	}, 0, 1, runPlay)
}

// liveKeys are the flags of play that override keys: those of eval that concern one episode.
func liveKeys() []keyFlag {
	several := []string{"tasks", "skip-tasks", "samples", "concurrency", "deterministic"}
	return slices.DeleteFunc(playKeys(), func(k keyFlag) bool { return slices.Contains(several, k.name()) })
}

func runPlay(ctx context.Context, s *State, c *cli.Context) error {
	s.ConfigLevel("warn") // the log would appear between the turns
	f := flagFaults{}
	cfg, name, err := s.parseLive(ctx, c, &f)
	if err != nil {
		return err
	}
	if err := f.err(); err != nil {
		return err
	}
	file := c.String("dump")
	if err := s.CheckOutput(file, c.Bool("force")); err != nil {
		return err
	}
	r, err := s.openRun(ctx, cfg, liveKeys())
	if err != nil {
		return err
	}
	task := -1
	if c.IsSet("task") {
		task = c.Int("task")
	}
	theater := &theater{State: s, ctx: ctx, in: s.lines(), agent: name, me: c.Bool("me"), auto: c.Bool("auto")}
	ep, err := r.PlayLive(ctx, run.LiveOptions{
		PlayOptions: run.PlayOptions{ServerLogs: c.String("server-logs")}, Live: theater, Me: theater.me, Task: task, Dump: file,
	})
	if err != nil {
		return err
	}
	if theater.failed != nil {
		return errext.With(errext.Disk, "", theater.failed)
	}
	switch {
	case file == "" || s.quiet:
	case ep == nil:
		fmt.Fprintf(s.Stderr, "(the episode was not finished, so %s has none)\n", file)
	default:
		fmt.Fprintf(s.Stderr, "(the episode is in %s; openmanus view %s shows it)\n", file, errext.ShellQuote(file))
	}
	return nil
}

// parseLive returns the configuration of the episode, and the name of the agent. It adds the
// errors of flags to f.
func (s *State) parseLive(ctx context.Context, c *cli.Context, f *flagFaults) (cfg configs.Config, agent string, err error) {
	name := c.Args().First()
	if name != "" && c.IsSet("model") {
		f.add("model", "%s is given as well: remove one of them", name)
	}
	if name == "" && !c.Bool("me") {
		name = c.String("model") // a run here gives its configuration, too
	}
	var found run.Found
	if name != "" {
		if found, err = run.FindModel(ctx, &s.Host, name); err != nil {
			return cfg, "", err
		}
	}
	cfg = schema.Defaults()
	ofRun := found.Config != nil
	if ofRun {
		e, err := chooseEnv(*found.Config, c.String("env"))
		if err != nil {
			return cfg, "", err
		}
		cfg = *found.Config
		if len(e.ValTasks) == 0 {
			e.ValTasks = e.Tasks
		}
		e.SkipTasks = nil
		cfg.Env, cfg.Rollout.Deterministic = []configs.Env{e}, false
	} else {
		cfg.Env = []configs.Env{run.Schema.DefaultEnv(c.String("env"))}
		cfg.Env[0].ValTasks = []string{strconv.Itoa(max(0, c.Int("task")))}
	}
	completePlay(c, f, &cfg, liveKeys(), !ofRun)
	if name != "" && c.String("base-url") == "" {
		cfg.Model.Path, cfg.Model.Fresh.Layers, cfg.Rollout.Engine = name, 0, engineLocal
	}
	cfg.Rollout.Val.GroupSize, cfg.Rollout.MaxSequences, cfg.Agent.MaxWorkers = 1, 1, 1
	f.atLeast("task", c.Int("task"), 0)
	if c.Bool("me") && c.Bool("auto") {
		f.add("auto", "--me is given as well: remove one of them")
	}
	needed := cfg
	switch {
	case cfg.Rollout.Engine != engineLocal || cfg.Model.Path != "":
	case c.Bool("me"):
		needed.Model.Path = "none" // a person needs no model
	default:
		f.add("model", "missing; give a run or a model: openmanus play RUN; or --me to play yourself; or --base-url and --api-model for an endpoint")
	}
	f.needs(c, needed)
	f.check(c, liveKeys(), &needed)
	agent = name
	switch {
	case found.Run != nil:
		agent = fmt.Sprintf("%s, checkpoint of step %d", name, found.Step)
	case cfg.Rollout.Engine == engineOpenAI:
		agent = cfg.Rollout.API.Model
	}
	return cfg, agent, nil
}

// theater shows an episode and asks the person. It implements run.Live.
type theater struct {
	*State
	ctx   context.Context
	in    lineReader
	agent string
	me    bool // the person writes every reply
	auto  bool // the agent writes the rest

	inLine bool  // the last output has no line end
	failed error // first error of writing
}

// show writes text to standard output. An error ends the episode at the next turn.
func (t *theater) show(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if text == "" || t.failed != nil {
		return
	}
	t.inLine = !strings.HasSuffix(text, "\n")
	_, t.failed = io.WriteString(t.Stdout, text)
}

// endLine ends the current line of the output.
func (t *theater) endLine() {
	if t.inLine {
		t.show("\n")
	}
}

// Began implements run.Live.
func (t *theater) Began(task data.Task, instruction, first string) {
	who := "you"
	if !t.me {
		who = t.agent
	}
	t.show("%s, task %d, played by %s\n\n", task.Table(), task.Index, who)
	if instruction != "" {
		t.show("%s\n\n", strings.TrimRight(instruction, "\n"))
	}
	t.show("%s\n", strings.TrimRight(first, "\n"))
	switch {
	case t.Keyboard == nil || t.quiet || t.auto:
	case t.me:
		fmt.Fprintln(t.Stderr, "(type your action; q ends the episode)")
	default:
		fmt.Fprintln(t.Stderr, "(Enter: the agent acts; a line: your action; a: the agent acts to the end; q: end)")
	}
}

// Act implements run.Live.
func (t *theater) Act(ctx context.Context, turn int) (line string, person bool, err error) {
	if t.failed != nil {
		return "", false, run.ErrQuit
	}
	t.show("\n")
	for !t.auto {
		line, err := t.in.ReadLine(ctx, fmt.Sprintf("turn %d> ", turn+1))
		switch {
		case errors.Is(err, io.EOF) && !t.me:
			t.auto = true // the rest of a pipe's episode, or Ctrl-D
			continue
		case errors.Is(err, io.EOF), errors.Is(err, errCtrlC):
			return "", false, run.ErrQuit
		case err != nil:
			return "", false, err
		}
		switch {
		case line == "q":
			return "", false, run.ErrQuit
		case t.me && strings.TrimSpace(line) == "":
			continue
		case !t.me && line == "":
			t.show("turn %d, agent: ", turn+1)
			return "", false, nil
		case !t.me && line == "a":
			t.auto = true
		default:
			t.show("turn %d, you: ", turn+1)
			return strings.TrimSpace(line), true, nil
		}
	}
	t.show("turn %d, agent: ", turn+1)
	return "", false, nil
}

// Say implements run.Live.
func (t *theater) Say(piece string) { t.show("%s", piece) }

// Turn implements run.Live.
func (t *theater) Turn(turn *data.Turn) {
	t.endLine()
	switch {
	case !turn.Parsed:
		t.show("  no action was found in the reply; reward %g\n", turn.Reward)
	case turn.Refused:
		t.show("  the environment's client refused the action %q; reward %g\n", turn.Action, turn.Reward)
	default:
		t.show("  action %q, reward %g\n", turn.Action, turn.Reward)
	}
	t.show("%s\n", strings.TrimRight(turn.Observation, "\n"))
}

// Ended implements run.Live.
func (t *theater) Ended(e *data.Episode) {
	t.endLine()
	if e.Outcome == data.Cancelled {
		t.show("\nended after %d turns\n", len(e.Turns))
		return
	}
	t.show("\n%s: reward %g after %d turns\n", e.Outcome, e.Reward, len(e.Turns))
}
