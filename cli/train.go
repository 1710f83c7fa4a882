package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/cli/dashboard"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/textwidth"
)

func trainCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "train",
		Usage:     "train an agent by reinforcement learning; without a configuration, run the quickstart",
		ArgsUsage: "[CONFIG.toml]",
		Description: "Ctrl-C finishes the step, or stops a validation, saves a checkpoint and exits with 130. SIGTERM and\n" +
			"SIGHUP, from a closed terminal, do the same; nohup ignores SIGHUP. The same command resumes the run from\n" +
			"its last checkpoint, also after a kill.",
		Flags: append(trainFlags(),
			&cli.StringFlag{Name: "serve", Usage: "let agents in other programs play the training episodes through OpenAI's API at `ADDR`, HOST:PORT; sets serve.listen (docs/serve.md)"},
			&cli.BoolFlag{Name: "off-policy", Usage: "accept a dump that was played with other weights; sets data.off_policy"}),
	}, 0, 1, func(ctx context.Context, s *State, c *cli.Context) error {
		return s.train(ctx, c, (*run.Run).Fit)
	})
}

// trainFlags returns the flags that train and sft share.
func trainFlags() []cli.Flag {
	return append(append(configFlags(""), dashboardFlag(), processesFlag()),
		&cli.StringFlag{Name: "device", Usage: "auto, cpu, cuda or cuda:N; overrides model.device"},
		&cli.StringFlag{Name: "from-dump", Usage: "train on the dump `FILE` of rollout, without servers; sets data.from_dump"})
}

// parseTrain returns the configuration of the command line, whose flags override
// the file.
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
	if file := c.String("from-dump"); file != "" {
		sets = append(sets, "data.from_dump="+file)
	}
	if addr := c.String("serve"); addr != "" {
		sets = append(sets, "serve.listen="+addr)
	}
	if c.Bool("off-policy") {
		sets = append(sets, "data.off_policy=true")
	}
	cfg, err := s.chosenConfig(c, c.Args().First(), sets)
	if err != nil {
		return cfg, err
	}
	s.ConfigLevel(cfg.Log.Level)
	return cfg, nil
}

// train trains with the configuration of the command line and prints the
// result.
func (s *State) train(ctx context.Context, c *cli.Context, fit func(r *run.Run, ctx, soft context.Context) (*run.Result, error)) (err error) {
	processes := c.Int("processes")
	env, several, err := s.groupEnv(processes)
	if err != nil {
		return err
	}
	cfg, err := s.parseTrain(c)
	started := s.interrupts.Starting()
	if several {
		r, joinErr := s.join(ctx, env, cfg, err)
		err = joinErr
		defer func() {
			err = r.Settle(s.interrupts.Hard, err)
			err = errors.Join(err, r.Close(err))
		}()
	}
	if err != nil {
		return err
	}
	if processes > 1 {
		return s.launch(processes, c.Args().First(), run.Seconds(cfg.Dist.TimeoutS))
	}
	watch := &watcher{s: s, barsOnly: !slices.Contains(cfg.Log.Backends, "console")}
	host, listeners, opened := s.Host, algo.Listeners{}, []func(*rundir.Folder){}
	if !s.quiet && s.rank == 0 {
		listeners, opened = append(listeners, watch), append(opened, watch.opened)
	}
	var board *dashboard.Dashboard
	err = s.Ranks.OnFirst(s.interrupts.Hard, func() (err error) {
		board, err = s.startDashboard(s.interrupts.Hard, c)
		return err
	})
	if err != nil {
		return err
	}
	if board != nil {
		fmt.Fprintf(s.Stderr, "dashboard at %s\n", board.URL())
		listeners, opened = append(listeners, board), append(opened, board.Opened)
		host.Log, host.Observer = shownIn(board, s.Log), board
		defer func() {
			if err := board.End(); err != nil { // a browser does not decide over the result of the run
				s.Log.Warn("the dashboard did not close cleanly", "error", err)
			}
		}()
	}
	host.Events = listeners
	host.Started = started
	host.Opened = func(folder *rundir.Folder) {
		for _, f := range opened {
			f(folder)
		}
	}
	var r *run.Run
	err = s.Ranks.Each(s.interrupts.Hard, func() (err error) {
		r, err = run.Open(ctx, cfg, host)
		return err
	})
	if err != nil {
		return err
	}
	result, err := fit(r, s.interrupts.Hard, s.interrupts.Soft)
	watch.done()
	if err != nil || s.rank > 0 {
		return err
	}
	return s.printOutcome(result)
}

// finishedNote returns a note on how to extend a run that has done all its steps.
func finishedNote(r *run.Result) string {
	section, steps := "trainer", r.Config.Trainer.TotalSteps
	if r.State.Supervised {
		section, steps = "sft", r.Config.SFT.TotalSteps
	}
	key, more := section+".total_steps", ""
	if steps == 0 {
		key = section + ".epochs"
	}
	if r.Config.Data.FromDump != "" && !r.State.Supervised {
		key, more = "trainer.total_steps", ", at most the steps of the dump,"
	}
	return "this run is finished; raise " + key + more +
		" to continue it, or set trainer.experiment to another name, or trainer.resume=never, to train anew"
}

// printOutcome prints the validations, the paths of the results and the
// commands that use them.
func (s *State) printOutcome(r *run.Result) error {
	folder, cfg, st, actor := r.Folder, r.Config, r.State, r.Actor()
	program := errext.ShellQuote(s.Args[0])
	text := ""
	if r.AlreadyDone {
		text = textwidth.Wrap(finishedNote(r)+"\n", textwidth.Limit)
	}
	text += fmt.Sprintf("\nRun %s: %s\n\n", folder.Dir, textwidth.Count(st.Step, "step"))
	if table := outcomeTable(st.Validations); table != "" {
		text += table + "\n"
	}
	text += fmt.Sprintf("  metrics     %s\n", folder.Metrics())
	if written, _ := fs.ReadDir(s.DirFS(folder.Rollouts()), "."); len(written) > 0 { // without episodes the folder is empty
		text += fmt.Sprintf("  episodes    %s\n", folder.Rollouts())
	}
	text += fmt.Sprintf("  weights     %s\n", actor)
	if b := st.Best; b != nil && b.Step != st.Step {
		text += fmt.Sprintf("  best        %s\n              %s %.3f after step %d\n", filepath.Join(folder.Best(), rundir.ActorFolder), b.Metric, b.Value, b.Step)
	}
	if cfg.Model.LoRARank > 0 {
		base := cfg.Model.Path
		if model.IsFolder(folder.Base()) {
			base = folder.Base()
		}
		text += textwidth.Wrap("\nThe weights are adapters of "+base+" in the format of PEFT. This command merges both into one model:\n", textwidth.Limit) +
			commandText(program, "model", "convert", errext.ShellQuote(actor), "merged")
	}
	switch {
	case cfg.Serve.Listen != "":
		text += "\nNext: let agents use the trained model:\n" + commandText(program, "serve", errext.ShellQuote(folder.Dir))
	case len(cfg.Env) == 0:
		text += "\nNext: talk to the trained model, or serve it to other programs:\n" +
			commandText(program, "chat", errext.ShellQuote(folder.Dir)) +
			commandText(program, "serve", errext.ShellQuote(folder.Dir))
	default:
		e := cfg.Env[max(0, slices.IndexFunc(cfg.Env, func(e configs.Env) bool { return len(e.ValTasks) > 0 }))]
		play := []string{program, "play", errext.ShellQuote(folder.Dir)}
		if len(cfg.Env) > 1 {
			play = append(play, "--env", e.Called())
		}
		evaluate := "evaluate it"
		if len(e.ValTasks) == 0 {
			evaluate += " on training tasks"
		}
		text += "\nNext: watch the agent, " + evaluate + ", or write a new configuration:\n" +
			commandText(play...) +
			commandText(append([]string{program, "eval"}, evalAgain(folder.Config(), actor, cfg, e)...)...) +
			commandText(program, "config", "init", s.unused("my.toml", "next.toml"))
	}
	return s.print([]byte(text))
}

// unused returns the first name that is not the name of a file, or the last name.
func (s *State) unused(names ...string) string {
	for _, name := range names {
		if _, err := s.Stat(name); err != nil {
			return name
		}
	}
	return names[len(names)-1]
}

func sftCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "sft",
		Usage:     "train on recorded trajectories only",
		ArgsUsage: "[CONFIG.toml]",
		Description: "Takes the configuration of train and runs the supervised epochs of [sft], in another run folder:\n" +
			"the name of the experiment with -sft.\n" +
			"It plays val_tasks and expert_tasks; without them it needs no server, and with sft.files no [[env]].\n" +
			"With --from-dump it learns from the successful episodes of a dump, or from the episodes selected by\n" +
			"sft.dump_min_reward.",
		Flags: trainFlags(), // without --off-policy: supervised training accepts a dump that any weights played
	}, 0, 1, func(ctx context.Context, s *State, c *cli.Context) error {
		return s.train(ctx, c, (*run.Run).SFT)
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// outcomeTable formats the validations of a run with 95 % intervals of the
// success rates. An extended run has several validations with the
// label "after"; the table labels them by their step, except the last.
func outcomeTable(validations []rundir.Validation) string {
	rows := [][]string{{"when", "env", "success", "95% interval", "score", "turns", "episodes"}}
	for i, v := range validations {
		if v.Label == rundir.LabelAfter && i < len(validations)-1 {
			v.Label = rundir.StepLabel(v.Step)
		}
		for _, r := range v.Results() {
			rows = append(rows, []string{v.Label, r.Env, fmt.Sprintf("%.3f", r.Success), fmt.Sprintf("%.3f - %.3f", r.Low, r.High),
				fmt.Sprintf("%.3f", r.Score), fmt.Sprintf("%.1f", r.Turns), fmt.Sprintf("%.0f", r.Episodes)})
		}
	}
	if len(rows) == 1 {
		return ""
	}
	return textwidth.Table("llrrrrr", rows)
}
