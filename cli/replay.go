package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/replay"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

func replayCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "replay",
		Usage:     "play recorded episodes again without a server, and report what differs",
		ArgsUsage: "FILE",
		Flags:     replayFlags(),
		Description: "FILE is a dump of rollout. What servers said comes from it, what the model said is forced, and the\n" +
			"sampler says at every token what it would have drawn. The exit code is 8 where an episode differs, and 3 where\n" +
			"none could be replayed.",
	}, 1, runReplay)
}

// replayKeys override the configuration that the dump recorded.
func replayKeys() []keyFlag {
	return []keyFlag{
		{flag: &cli.StringFlag{Name: "model", Usage: "folder or .gguf file of the model that played; without, where the dump says it is"}, keys: "model.path"},
		{flag: deviceFlag(), keys: "model.device"},
	}
}

func replayFlags() []cli.Flag {
	return append(flagsOf(replayKeys()),
		&cli.BoolFlag{Name: "no-model", Usage: "check requests, observations, rewards and masks only; a dump of an endpoint, which has no ids, by its texts"},
		&cli.IntFlag{Name: "episode", Value: -1, Usage: "only this one, counted from 0"},
		&cli.Float64Flag{Name: "margin", Value: 1e-4, Usage: "ids that another one beats by less are counted and are no difference: batches change log-probs by so much"},
		jsonFlag())
}

// replayOptions are the command line of `openmanus replay`.
type replayOptions struct {
	Path    string
	Model   configs.Model // without its path, the dump's
	NoModel bool
	Episode int // -1: all
	Margin  float64
	JSON    bool
}

// parseReplay reads the flags of replayFlags and the argument.
func parseReplay(c *cli.Context) (replayOptions, error) {
	o := replayOptions{
		Path: c.Args().First(), NoModel: c.Bool("no-model"),
		Episode: c.Int("episode"), Margin: c.Float64("margin"), JSON: c.Bool("json"),
	}
	if o.Path == "" {
		return o, usagef("replay needs a FILE: a dump of openmanus rollout")
	}
	var f flagFaults
	cfg := schema.Defaults()
	f.override(c, replayKeys(), &cfg, false)
	f.check(c, replayKeys(), &cfg)
	o.Model = cfg.Model
	f.atLeast("episode", o.Episode, -1)
	if o.NoModel && o.Model.Path != "" {
		f.add("no-model", "--model is given as well: take out one of the two")
	}
	if !(o.Margin >= 0 && o.Margin < 1) {
		f.add("margin", "%v is not allowed; allowed: 0 to 1", o.Margin)
	}
	return o, f.err()
}

// replayReport is what `openmanus replay --json` prints.
type replayReport struct {
	File          string             `json:"file"`
	Deterministic bool               `json:"deterministic"` // recorded so
	WithModel     bool               `json:"with_model"`
	ByText        bool               `json:"by_text"` // an endpoint played: there are no ids
	Replayed      int                `json:"replayed"`
	Differ        int                `json:"differ"`
	Skipped       map[string]int     `json:"skipped"` // by reason
	SkippedRows   map[string][]int   `json:"skipped_episodes"`
	Draws         int                `json:"ids"` // that the sampler was asked for
	NearTies      int                `json:"near_ties"`
	MaxGap        float64            `json:"max_logprob_gap"`
	Differences   []episodeDiffering `json:"differences"`
}

// episodeDiffering is the first difference of an episode.
type episodeDiffering struct {
	Episode int    `json:"episode"` // its row, from 0
	TaskID  string `json:"task_id"`
	Sample  int    `json:"sample"`
	*replay.Difference
}

func runReplay(ctx context.Context, s *State, c *cli.Context) (err error) {
	o, err := parseReplay(c)
	if err != nil {
		return err
	}
	dump, err := dump.Open(s.Path(o.Path))
	if err != nil {
		return errext.With(errext.Input, "give a dump of openmanus rollout", err)
	}
	defer dump.Close()
	p := &replaying{s: s, o: o, dump: dump}
	defer func() { err = errors.Join(err, p.open.Close()) }()
	if err := p.prepare(ctx); err != nil {
		return err
	}
	if err := p.all(ctx); err != nil {
		return err
	}
	if o.JSON {
		err = s.printJSON(p.report)
	} else {
		err = s.print([]byte(p.report.text()))
	}
	switch {
	case err != nil:
	case p.report.Replayed == 0:
		err = errext.With(errext.Input, "roll out again what is to be replayed; docs/dumps.md says what can be", p.report.nothing())
	case p.report.Differ > 0:
		err = errext.With(errext.Check, "", fmt.Errorf("%d of %d episodes differ from what was recorded", p.report.Differ, p.report.Replayed))
	}
	return err
}

// replaying is one replay.
type replaying struct {
	s      *State
	o      replayOptions
	dump   *dump.Reader
	played run.RecordedPlay
	setup  replay.Setup
	open   run.Closers
	total  int // episodes; 0 without a model, where it takes no time
	report replayReport
}

// replayAtOnce is how many episodes are replayed at once where no wave says it.
const replayAtOnce = 32

func (p *replaying) prepare(ctx context.Context) error {
	var err error
	if p.played, err = run.ReadRecordedPlay(p.dump.Header()); err != nil {
		return errext.With(errext.Input, "record it with openmanus rollout --dump", fmt.Errorf("%s: %w", p.o.Path, err))
	}
	played := p.played.Config
	e := played.Env[0]
	p.report = replayReport{
		File: p.o.Path, Deterministic: played.Rollout.Deterministic, WithModel: !p.o.NoModel,
		Skipped: map[string]int{}, SkippedRows: map[string][]int{}, Differences: []episodeDiffering{},
	}
	if p.setup.ByText = played.Rollout.Engine == engineOpenAI; p.setup.ByText && !p.o.NoModel {
		return errext.With(errext.Input, "give --no-model: all that follows from its replies is checked",
			fmt.Errorf("%s was played by %s at %s, and an endpoint's ids and draws are in no dump", p.o.Path, played.Rollout.API.Model, played.Rollout.API.BaseURL))
	}
	p.report.ByText = p.setup.ByText
	a := &p.setup.Agent
	if a.Spec, err = env.Lookup(e.Name); err != nil {
		return errext.With(errext.Input, "", err)
	}
	if e.MemoryFile != "" {
		return errext.With(errext.Input, "roll out without --memory-file what is to be replayed",
			errors.New("it was played with a memory file, and what that held then is not in the dump"))
	}
	if e.UseSummary {
		return errext.With(errext.Input, "roll out without --use-summary what is to be replayed",
			errors.New("it was played with summaries, which another model wrote, and that is not asked again"))
	}
	if a.Format, err = agent.FormatFor(e.Format, a.Spec, agent.FormatOptions{HistoryLength: e.HistoryLength}); err != nil {
		return errext.With(errext.Input, "", err)
	}
	a.Options = *p.played.Episode
	p.setup.Client = env.Options{Parser: action.Parser(e.Parser), ActionFormat: action.Format(e.ActionFormat)}
	if p.o.NoModel {
		return nil
	}
	return p.openModel(ctx)
}

// openModel opens the model that played, and a sampler that says what it would
// draw.
func (p *replaying) openModel(ctx context.Context) error {
	played := p.played.Config
	m := configs.Model{Path: cmp.Or(p.o.Model.Path, played.Model.Path), ComputeDtype: played.Model.ComputeDtype, Device: p.o.Model.Device}
	bundle, err := run.OpenModel(ctx, &p.s.Host, &p.open, m, model.Options{})
	if err != nil {
		return errext.With(run.CodeOf(ctx, err), "give --model, or --no-model to check the rest", err)
	}
	hash, err := bundle.Model.Hash(ctx)
	if err != nil {
		return errext.With(errext.Native, "", err)
	}
	if want := p.dump.Header().Weights; hash != want {
		return errext.With(errext.Input, "give the model that played with --model, or --no-model to check the rest",
			fmt.Errorf("%s was played by the weights %s, and %s has %s", p.o.Path, want, m.Path, hash))
	}
	if n := torch.NumThreads(); played.Rollout.Deterministic && n != p.played.Threads {
		p.s.Log.Warn("another number of threads than when it was recorded: sums are others, within float noise", "recorded", p.played.Threads, "now", n)
	}
	var sequences int
	if p.total, sequences, err = p.count(); err != nil {
		return err
	}
	p.setup.Teacher = &replay.Teacher{Margin: p.o.Margin}
	p.setup.Deterministic = played.Rollout.Deterministic
	sampler, err := run.NewSampler(ctx, bundle, bundle.Model, run.SamplerOptions{
		Sequences: sequences, MaxContext: p.setup.Agent.Options.MaxContext, Deterministic: played.Rollout.Deterministic,
		MemoryShare: 0.5, Hints: run.CacheHints{Sessions: "free some memory", Context: "free some memory", Share: "free some memory"}, Teacher: p.setup.Teacher,
		Day: run.PromptDay(&p.s.Host, p.played.Day),
	})
	if err != nil {
		return err
	}
	p.open.AddFunc(sampler.Close)
	p.setup.Agent.Engine, p.setup.Agent.Renderer = sampler.Scheduler, sampler.Renderer
	return nil
}

// count reads the dump once to see how many episodes it has, and how many of
// them are played at once at most.
func (p *replaying) count() (total, atOnce int, err error) {
	dump, err := dump.Open(p.s.Path(p.o.Path))
	if err != nil {
		return 0, 0, errext.With(errext.Input, "", err)
	}
	defer dump.Close()
	if atOnce = replayAtOnce; p.played.Config.Rollout.Deterministic {
		atOnce = 1
	}
	for ; ; total++ {
		e, err := dump.Next()
		if errors.Is(err, io.EOF) {
			return total, atOnce, nil
		}
		if err != nil {
			return 0, 0, errext.With(errext.Input, "", err)
		}
		atOnce = max(atOnce, e.WaveSize)
	}
}

// all replays the dump, a wave at a time, or some episodes where there are no
// waves. Of --episode's wave the others are played too: they decide its batches.
func (p *replaying) all(ctx context.Context) error {
	bar := run.Progress(noProgress{})
	if p.total > 0 && p.o.Episode < 0 {
		bar = p.s.Progress("replaying", p.total)
	}
	defer bar.Done()
	var rows []int
	var set []*data.Episode
	flush := func() error {
		if err := p.some(ctx, rows, set); err != nil {
			return err
		}
		rows, set = rows[:0], set[:0]
		bar.Set(p.report.Replayed, fmt.Sprintf("%d differ", p.report.Differ))
		return nil
	}
	for row := 0; ; row++ {
		e, err := p.dump.Next()
		if errors.Is(err, io.EOF) {
			if p.o.Episode >= row {
				return errext.With(errext.Input, "episodes are counted from 0", fmt.Errorf("%s has %d episodes and no episode %d", p.o.Path, row, p.o.Episode))
			}
			if p.dump.Torn() {
				p.s.Log.Warn("the last line is cut off and not replayed; openmanus rollout --continue plays it again", "file", p.o.Path)
			}
			return flush()
		}
		if err != nil {
			return errext.With(errext.Input, "", err)
		}
		full := len(set) > 0 && (e.Wave != set[0].Wave || e.Wave == 0 && len(set) == replayAtOnce)
		if full {
			if err := flush(); err != nil {
				return err
			}
		}
		if e.Wave == 0 && p.o.Episode >= 0 && row != p.o.Episode {
			continue
		}
		rows, set = append(rows, row), append(set, e)
	}
}

// some replays episodes of one wave, or of none.
func (p *replaying) some(ctx context.Context, rows []int, set []*data.Episode) error {
	wanted := func(row int) bool { return p.o.Episode < 0 || row == p.o.Episode }
	asked := false
	var at []int
	var play []*data.Episode
	for i, e := range set {
		asked = asked || wanted(rows[i])
		if e.Task.Env != p.played.Config.Env[0].Name {
			return errext.With(errext.Input, "", fmt.Errorf("%s: episode %d is of environment %q, and the header says %q", p.o.Path, rows[i], e.Task.Env, p.played.Config.Env[0].Name))
		}
		if why := p.setup.Replayable(e); why == "" {
			at, play = append(at, rows[i]), append(play, e)
		} else if wanted(rows[i]) {
			p.report.Skipped[why]++
			p.report.SkippedRows[why] = append(p.report.SkippedRows[why], rows[i])
		}
	}
	if !asked || len(play) == 0 {
		return nil
	}
	results, err := replay.Episodes(ctx, p.setup, play)
	if err != nil {
		return errext.With(errext.Input, "", fmt.Errorf("%s: %w", p.o.Path, err))
	}
	for i, r := range results {
		if !wanted(at[i]) {
			continue
		}
		p.report.Replayed++
		p.report.Draws += r.Draws
		p.report.NearTies += r.NearTies
		p.report.MaxGap = max(p.report.MaxGap, r.MaxGap)
		if r.Difference != nil {
			p.report.Differ++
			p.report.Differences = append(p.report.Differences, episodeDiffering{at[i], play[i].Task.ID, play[i].Sample, r.Difference})
		}
	}
	return nil
}

func (r *replayReport) text() string {
	var b bytes.Buffer
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "episode %d (%s, sample %d): %s\n", d.Episode, d.TaskID, d.Sample, d.Difference)
	}
	fmt.Fprintf(&b, "%s: %d episodes replayed, %d differ\n", r.File, r.Replayed, r.Differ)
	if r.WithModel {
		fmt.Fprintf(&b, "  %d ids drawn again, %d near ties, log-probs differ by at most %.3g\n", r.Draws, r.NearTies, r.MaxGap)
	} else if r.ByText {
		b.WriteString("  without the model, by the endpoint's texts: actions, requests, observations, rewards and outcomes; no ids\n")
	} else {
		b.WriteString("  without the model: requests, observations, rewards and masks\n")
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintf(&b, "  not replayed: %s\n", r.skipped())
	}
	return b.String()
}

// skipped says which episodes were not replayed, and why.
func (r *replayReport) skipped() string {
	var parts []string
	for _, why := range sortedKeys(r.SkippedRows) {
		rows := r.SkippedRows[why]
		noun := "episodes"
		if len(rows) == 1 {
			noun = "episode"
		}
		parts = append(parts, fmt.Sprintf("%s %s: %s", noun, run.FormatIndices(rows), why))
	}
	return strings.Join(parts, "; ")
}

// nothing is the error of a replay that checked nothing, which must not pass
// for one that found nothing.
func (r *replayReport) nothing() error {
	if len(r.Skipped) == 0 {
		return fmt.Errorf("%s: nothing was replayed: it holds no episode", r.File)
	}
	return fmt.Errorf("%s: nothing was replayed: %s", r.File, r.skipped())
}
