package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

func trainCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "train",
		Usage:     "train an agent by reinforcement learning; without a configuration, the quickstart",
		ArgsUsage: "[CONFIG.toml]",
		Description: "Ctrl-C once finishes the step, breaks a validation off, saves and exits with 130; the same command\n" +
			"goes on from there. SIGTERM and a terminal that closes (SIGHUP) do the same; under nohup SIGHUP is ignored.\n" +
			"A run that was killed goes on from its last checkpoint.",
		Flags: append(trainFlags(),
			&cli.BoolFlag{Name: "off-policy", Usage: "train also from a dump that other weights played; sets data.off_policy"}),
	}, 1, runTrain)
}

// trainFlags are the flags of `openmanus train`, but for one, and of `openmanus
// sft`; the argument is a configuration file, and without one train runs the
// quickstart.
func trainFlags() []cli.Flag {
	return []cli.Flag{
		presetFlag(""),
		envPresetFlag(),
		setFlag(),
		&cli.StringFlag{Name: "device", Usage: "auto, cpu, cuda or cuda:N; overrides model.device"},
		&cli.StringFlag{Name: "from-dump", Usage: "`FILE` of rollout --dump to train from, without any server; sets data.from_dump"},
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
	if file := c.String("from-dump"); file != "" {
		sets = append(sets, "data.from_dump="+file)
	}
	if c.Bool("off-policy") {
		sets = append(sets, "data.off_policy=true")
	}
	cfg, err := s.chosenConfig(c, c.Args().First(), sets)
	if err != nil {
		return cfg, err
	}
	s.ConfigLevel(cfg.Log.Level)
	if cfg.Rollout.Engine != "local" {
		return cfg, errext.With(errext.Input, "set it to \"local\" to train; openmanus eval and rollout take this configuration",
			fmt.Errorf("rollout.engine = %q cannot be trained with: an endpoint gives text, not the token ids and log-probs that an update needs, nor are its weights here", cfg.Rollout.Engine))
	}
	return cfg, nil
}

func runTrain(ctx context.Context, s *State, c *cli.Context) error {
	cfg, err := s.parseTrain(c)
	if err != nil {
		return err
	}
	if err := needsEnv(cfg); err != nil {
		return err
	}
	if cfg.Data.FromDump != "" {
		cfg.Trainer.Experiment = experimentName(cfg) + "-dump" // a run of the same file that plays has a folder of its own
	}
	return s.fit(ctx, cfg, reinforced)
}

// fit does a whole run and prints what came of it.
func (s *State) fit(ctx context.Context, cfg configs.Config, m mode) (err error) {
	// Before there is a folder of a run that cannot begin. The run's config.toml has the format that auto stands for.
	if cfg.Model.ComputeDtype, err = computeDtype(cfg.Model.ComputeDtype, cfg.Model.Device); err != nil {
		return err
	}
	for _, d := range cfg.Derived {
		s.Log.Info("setting derived from the others", "key", d.Key, "value", d.Value, "reason", d.Default+" does not fit "+d.Reason)
	}
	in := s.Interrupts(ctx)
	run, err := s.openRun(in.Hard, cfg, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.end(ctx, s, err)) }()
	endLog, err := s.keepLog(run.folder.Log())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endLog(err)) }()
	if run.finished(cfg, m) {
		return s.printOutcome(run, cfg, *run.state, finishedNote(cfg, m))
	}
	if err := s.WriteFile(run.folder.Config(), cfg.Marshal(), true); err != nil {
		return errext.With(errext.Disk, "", err)
	}
	s.Log.Info("run", "folder", run.folder.Dir, "state", run.describe())

	t, err := s.openTraining(in.Hard, cfg, run, m)
	defer func() { err = errors.Join(err, t.close()) }()
	if err != nil {
		return err
	}
	if err := t.openSampler(in.Hard); err != nil {
		return err
	}
	if err := t.render(); err != nil {
		return err
	}
	watch := &watcher{s: s, quiet: !slices.Contains(cfg.Log.Backends, "console"), read: true}
	defer watch.done()
	if err := t.read(in.Hard, in.Soft, watch); err != nil {
		return err
	}
	watch.read = false
	trainer, err := t.trainer(in.Hard, watch)
	if err != nil {
		return err
	}
	if err := t.startScorer(in.Hard); err != nil {
		return err
	}
	if err := m.fit(in.Hard, in.Soft, trainer); err != nil {
		return trainError(run, err)
	}
	return s.printOutcome(run, cfg, trainer.State(), "")
}

// finishedNote says how to go on with a run that has done all its steps.
func finishedNote(cfg configs.Config, m mode) string {
	section, steps := "trainer", cfg.Trainer.TotalSteps
	if m == supervised {
		section, steps = "sft", cfg.SFT.TotalSteps
	}
	key, more := section+".total_steps", ""
	if steps == 0 {
		key = section + ".epochs"
	}
	if cfg.Data.FromDump != "" && m == reinforced {
		key, more = "trainer.total_steps", " as far as the dump goes"
	}
	return "this run is finished; raise " + key + " to go on" + more +
		", or set trainer.experiment to another name, or trainer.resume=never, to train anew"
}

// trainError gives an error of a run its exit code.
func trainError(run *openedRun, err error) error {
	var diverged *learner.DivergedError
	var notFinite *learner.NotFiniteError
	var gap *algo.GapError
	var failed *rollout.FailedError
	var prompt *agent.PromptError
	var overlong *algo.OverlongError
	var down *pool.DownError
	var native *torch.Error
	switch {
	case algo.IsDiskError(err): // first: it may have kept what came before it from being saved
		return errext.With(errext.Disk, "make room or set trainer.output_dir; the same command then goes on from the last checkpoint", err)
	case errors.Is(err, algo.ErrInterrupted):
		return errext.ErrInterrupted
	case errors.As(err, &down), errors.As(err, &failed) && failed.Outcome == data.EnvError:
		return errext.With(errext.Env, "see to the servers; the same command then goes on from the last checkpoint", err)
	case errors.As(err, &failed), errors.As(err, &native):
		return errext.With(errext.Native, "the same command goes on from the last checkpoint", err)
	case errors.As(err, &diverged):
		return errext.With(errext.Diverged, "the last checkpoint in "+run.folder.Checkpoints()+" is from before; the batches are in "+run.folder.BadSteps(), err)
	case errors.As(err, &notFinite):
		return errext.With(errext.Diverged, "lower the learning rate, or compute in float32 (model.compute_dtype)", err)
	case errors.As(err, &gap):
		return errext.With(errext.Check, "", err)
	case errors.As(err, &prompt):
		key := map[string]string{agent.MaxPromptKey: "data.max_prompt_tokens", agent.MaxContextKey: "rollout.max_context_tokens"}[prompt.Key]
		return errext.With(errext.Input, "raise "+key+", shorten such prompts (data.truncation), or leave such tasks out (data.filter_overlong, or skip_tasks for this one)", err)
	case errors.As(err, &overlong):
		return errext.With(errext.Input, "raise data.max_prompt_tokens, or shorten the prompts with data.truncation instead", err)
	}
	return err
}

// printOutcome writes the table before and after, where things are, and what
// to do next.
func (s *State) printOutcome(run *openedRun, cfg configs.Config, st rundir.State, note string) error {
	text := ""
	if note != "" {
		text = note + "\n"
	}
	actor := latestActor(run.folder, st.Step)
	text += fmt.Sprintf("\nRun %s: %d steps\n\n", run.folder.Dir, st.Step)
	if table := outcomeTable(st.Validations); table != "" {
		text += table + "\n"
	}
	text += fmt.Sprintf("  metrics     %s\n", run.folder.Metrics())
	if cfg.Trainer.KeepRollouts >= 0 {
		text += fmt.Sprintf("  episodes    %s\n", run.folder.Rollouts())
	}
	text += fmt.Sprintf("  weights     %s\n", actor)
	if b := st.Best; b != nil && b.Step != st.Step {
		text += fmt.Sprintf("  best        %s (%s %.3f after step %d)\n", filepath.Join(run.folder.Best(), rundir.ActorFolder), b.Metric, b.Value, b.Step)
	}
	if cfg.Model.LoRARank > 0 {
		base := cfg.Model.Path
		if model.IsFolder(run.folder.Base()) {
			base = run.folder.Base()
		}
		text += "\nThe weights are adapters on " + base + ", as PEFT writes them. This merges both into one model:\n" +
			"  " + quoted(s.Args[0]) + " model convert " + quoted(actor) + " merged\n"
	}
	if len(cfg.Env) == 0 {
		return s.print([]byte(text + "\nNext: answer prompts with the trained model:\n" +
			"  " + quoted(s.Args[0]) + " generate prompts.jsonl replies.jsonl --model " + quoted(actor) + "\n"))
	}
	text += "\nNext: play with the trained agent, or write a configuration of your own:\n" +
		"  " + quoted(s.Args[0]) + " eval " + strings.Join(evalAgain(run.folder.Config(), actor, cfg, cfg.Env[0]), " ") + "\n" +
		"  " + quoted(s.Args[0]) + " config init my.toml\n"
	return s.print([]byte(text))
}
