package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/replay"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
)

// ReplayOptions are the options of Replay.
type ReplayOptions struct {
	Path    string  // a dump of Rollout
	NoModel bool    // check requests, observations, rewards and masks only
	Episode int     // index from 0 of the episode to replay; -1: all
	Margin  float64 // tokens within this log-prob margin count as near ties, not as differences
}

// ReplayReport is the result of Replay.
type ReplayReport struct {
	File          string              `json:"file"`
	Deterministic bool                `json:"deterministic"` // whether the recording is deterministic
	WithModel     bool                `json:"with_model"`
	ByText        bool                `json:"by_text"` // recorded with an endpoint, without token ids
	Replayed      int                 `json:"replayed"`
	Differ        int                 `json:"differ"`
	Skipped       map[string]int      `json:"skipped"` // number of episodes by reason
	SkippedRows   map[string][]int    `json:"skipped_episodes"`
	Draws         int                 `json:"ids"` // number of tokens that the sampler drew again
	NearTies      int                 `json:"near_ties"`
	MaxGap        float64             `json:"max_logprob_gap"`
	Differences   []EpisodeDifference `json:"differences"`
}

// EpisodeDifference is the first difference in an episode.
type EpisodeDifference struct {
	Episode int    `json:"episode"` // index from 0
	TaskID  string `json:"task_id"`
	Sample  int    `json:"sample"`
	*replay.Difference
}

// Replay replays recorded episodes without a server: observations come from the
// dump, the recorded tokens are forced, and the sampler reports the token that it
// would have drawn. The model is model.path, or by default the recorded model.
func (r *Run) Replay(ctx context.Context, o ReplayOptions) (_ *ReplayReport, err error) {
	in, err := dump.Open(r.host.Path(o.Path))
	if err != nil {
		return nil, errext.With(errext.Input, "give a dump of openmanus rollout", err)
	}
	p := &replaying{host: &r.host, model: r.cfg.Model, o: o, header: in.Header()}
	defer func() { err = errors.Join(err, p.open.Close()) }()
	if err := errors.Join(in.Close(), p.prepare(ctx)); err != nil {
		return nil, err
	}
	return &p.report, p.replayDump(ctx)
}

// replaying is one call of Replay.
type replaying struct {
	host   *Host
	model  configs.Model // the recorded model if the path is empty
	o      ReplayOptions
	header dump.Header
	played recordedPlay
	setup  replay.Setup
	open   Closers
	total  int // number of episodes for the progress bar; 0: unknown, without a model
	report ReplayReport
}

// replayAtOnce is the number of episodes replayed at once outside of waves.
const replayAtOnce = 32

func (p *replaying) prepare(ctx context.Context) error {
	var err error
	if p.played, err = readRecorded(p.header); err != nil {
		return errext.With(errext.Input, "record it with openmanus rollout --dump", fmt.Errorf("%s: %w", p.o.Path, err))
	}
	played := p.played.Config
	e := played.Env[0]
	p.report = ReplayReport{
		File: p.o.Path, Deterministic: played.Rollout.Deterministic, WithModel: !p.o.NoModel,
		Skipped: map[string]int{}, SkippedRows: map[string][]int{}, Differences: []EpisodeDifference{},
	}
	if p.setup.ByText = played.Rollout.Engine == "openai"; p.setup.ByText && !p.o.NoModel {
		return errext.With(errext.Input, "give --no-model, which checks everything but the sampling",
			fmt.Errorf("%s was played by %s at %s, and dumps of endpoints have no token ids", p.o.Path, played.Rollout.API.Model, played.Rollout.API.BaseURL))
	}
	p.report.ByText = p.setup.ByText
	a := &p.setup.Agent
	if a.Spec, err = SpecOf(e); err != nil {
		return err
	}
	if e.MemoryFile != "" {
		return errext.With(errext.Input, "replay a rollout without a memory file",
			errors.New("it was played with --memory-file, and the dump does not hold the content of that file"))
	}
	if e.UseSummary {
		return errext.With(errext.Input, "replay a rollout without --use-summary",
			errors.New("it was played with summaries of another model, which a replay does not request again"))
	}
	if a.Format, err = OpenFormat(ctx, p.host, &p.open, a.Spec, played, e); err != nil {
		return err
	}
	a.Options = *p.played.Episode
	p.setup.Client = env.Options{Parser: action.Parser(e.Parser), ActionFormat: action.Format(e.ActionFormat)}
	if p.o.NoModel {
		return nil
	}
	return p.openModel(ctx)
}

// openModel opens the model that played, and a sampler that reports the tokens that
// it would have drawn.
func (p *replaying) openModel(ctx context.Context) error {
	played := p.played.Config
	m := configs.Model{Path: cmp.Or(p.model.Path, played.Model.Path), ComputeDtype: played.Model.ComputeDtype, Device: p.model.Device,
		ChatTemplate: played.Model.ChatTemplate, ChatTemplateKwargs: played.Model.ChatTemplateKwargs}
	bundle, err := OpenModel(ctx, p.host, &p.open, m, model.Options{})
	if err != nil {
		return errext.With(CodeOf(ctx, err), "give its path with --model, or --no-model to check everything but the sampling", err)
	}
	hash, err := bundle.Model.Hash(ctx)
	if err != nil {
		return errext.With(errext.Native, "", err)
	}
	if want := p.header.Weights; hash != want {
		return errext.With(errext.Input, "give the path of the model that played with --model, or --no-model to check everything but the sampling",
			fmt.Errorf("%s was played by a model with weights %s, but %s has weights %s", p.o.Path, want, m.Path, hash))
	}
	if n := torch.NumThreads(); played.Rollout.Deterministic && n != p.played.Threads {
		p.host.Log.Warn("the number of threads differs from the recording: log-probs differ within float noise", "recorded", p.played.Threads, "now", n)
	}
	sequences := replayAtOnce
	if played.Rollout.Deterministic {
		sequences = 1
	}
	if _, err := p.read(ctx, func(row int, e *data.Episode) error {
		if p.selected(row) {
			p.total++
		}
		sequences = max(sequences, e.WaveSize)
		return nil
	}); err != nil {
		return err
	}
	p.setup.Teacher = &replay.Teacher{Margin: p.o.Margin}
	p.setup.Deterministic = played.Rollout.Deterministic
	sampler, err := NewSampler(ctx, bundle, bundle.Model, SamplerOptions{
		Sequences: sequences, MaxContext: p.setup.Agent.Options.MaxContext, Deterministic: played.Rollout.Deterministic, EnforceEager: played.Rollout.EnforceEager,
		WeightDType: played.Rollout.WeightDType,
		MemoryShare: 0.5, Utilization: 0.9, Hint: "free some memory", Teacher: p.setup.Teacher,
		Day: PromptDay(p.host, p.played.Day),
	})
	if err != nil {
		return err
	}
	p.open.AddFunc(sampler.Close)
	p.setup.Agent.Engine, p.setup.Agent.Renderer = sampler.Scheduler, sampler.Renderer
	return nil
}

// read calls f with the rows of the dump, and reports whether its last line is
// incomplete.
func (p *replaying) read(ctx context.Context, f func(row int, e *data.Episode) error) (torn bool, err error) {
	src, err := table.ReadSource(ctx, p.host.Path(p.o.Path), func(e *table.Entry) error { return f(e.N, e.Episode) })
	if err != nil {
		err = errext.WithDefault(errext.Input, err)
	}
	return src.Torn, err
}

// recorded is an episode of the dump.
type recorded struct {
	row int
	*data.Episode
}

// replayDump replays the dump, a wave or replayAtOnce episodes at a time. To replay
// one episode of a wave it replays the whole wave, whose episodes share batches.
func (p *replaying) replayDump(ctx context.Context) error {
	bar := p.host.Progress("replaying", p.total)
	defer bar.Done()
	rows := 0
	var set []recorded
	flush := func() error {
		if err := p.replaySet(ctx, set); err != nil {
			return err
		}
		set = set[:0]
		bar.Set(p.report.Replayed, fmt.Sprintf("%d differ", p.report.Differ))
		return nil
	}
	incomplete, err := p.read(ctx, func(row int, e *data.Episode) error {
		rows = row + 1
		if len(set) > 0 && (e.Wave != set[0].Wave || e.Wave == 0 && len(set) == replayAtOnce) {
			if err := flush(); err != nil {
				return err
			}
		}
		if e.Wave > 0 || p.selected(row) {
			set = append(set, recorded{row, e})
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case p.o.Episode >= rows:
		return errext.With(errext.Input, "episodes are counted from 0", fmt.Errorf("%s has %d episodes and no episode %d", p.o.Path, rows, p.o.Episode))
	case incomplete:
		p.host.Log.Warn("the incomplete last line is not replayed; openmanus rollout --continue plays it again", "file", p.o.Path)
	}
	return flush()
}

// selected reports whether the report covers an episode.
func (p *replaying) selected(row int) bool { return p.o.Episode < 0 || row == p.o.Episode }

// replaySet replays episodes of one wave, or episodes outside of waves.
func (p *replaying) replaySet(ctx context.Context, set []recorded) error {
	var play []recorded
	var episodes []*data.Episode
	for _, e := range set {
		if e.Task.Env != p.played.Config.Env[0].Name {
			return errext.With(errext.Input, "", fmt.Errorf("%s: episode %d is of environment %q, but the header has %q", p.o.Path, e.row, e.Task.Env, p.played.Config.Env[0].Name))
		}
		if why := p.setup.Replayable(e.Episode); why == "" {
			play, episodes = append(play, e), append(episodes, e.Episode)
		} else if p.selected(e.row) {
			p.report.Skipped[why]++
			p.report.SkippedRows[why] = append(p.report.SkippedRows[why], e.row)
		}
	}
	if !slices.ContainsFunc(play, func(e recorded) bool { return p.selected(e.row) }) {
		return nil
	}
	results, err := replay.Episodes(ctx, p.setup, episodes)
	if err != nil {
		return errext.With(errext.Input, "", fmt.Errorf("%s: %w", p.o.Path, err))
	}
	for i, r := range results {
		e := play[i]
		if !p.selected(e.row) {
			continue
		}
		p.report.Replayed++
		p.report.Draws += r.Draws
		p.report.NearTies += r.NearTies
		p.report.MaxGap = max(p.report.MaxGap, r.MaxGap)
		if r.Difference != nil {
			p.report.Differ++
			p.report.Differences = append(p.report.Differences, EpisodeDifference{e.row, e.Task.ID, e.Sample, r.Difference})
		}
	}
	return nil
}

// String returns the differences, a line each, and the counts.
func (r *ReplayReport) String() string {
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

// skipped lists the episodes that were not replayed, by reason.
func (r *ReplayReport) skipped() string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(r.SkippedRows)) {
		rows := r.SkippedRows[why]
		noun := "episodes"
		if len(rows) == 1 {
			noun = "episode"
		}
		parts = append(parts, fmt.Sprintf("%s %s: %s", noun, FormatIndices(rows), why))
	}
	return strings.Join(parts, "; ")
}

// Nothing returns the error of a replay that checked no episode.
func (r *ReplayReport) Nothing() error {
	if len(r.Skipped) == 0 {
		return fmt.Errorf("%s: nothing was replayed: the dump has no episodes", r.File)
	}
	return fmt.Errorf("%s: nothing was replayed: %s", r.File, r.skipped())
}
