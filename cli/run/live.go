package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

// LiveOptions are the options of PlayLive that are not configuration keys.
type LiveOptions struct {
	PlayOptions
	Live Live
	Me   bool   // a person writes all replies, and no model is opened
	Task int    // index of the task; negative: the first task of the configuration
	Dump string // file of the episode, "" for none
}

// Live shows an episode while it is played, and lets a person act in it. Its methods are called
// one at a time.
type Live interface {
	// Began is called with the task, the instruction and the first observation.
	Began(task data.Task, instruction, first string)
	// Act returns the action or the whole reply that a person writes in a turn, from 0. If person
	// is false, the model replies. Its error ErrQuit ends the episode.
	Act(ctx context.Context, turn int) (line string, person bool, err error)
	// Say is called with each piece of the reply.
	Say(piece string)
	// Turn is called with the environment's answer to a reply.
	Turn(t *data.Turn)
	// Ended is called with the finished episode.
	Ended(e *data.Episode)
}

// ErrQuit is the error of Live.Act that ends an episode early.
var ErrQuit = errors.New("the person ended the episode")

// PlayLive plays one episode and shows it. The model replies with the sampling settings of Eval,
// so an episode without a person equals the first one that Eval plays of the task. An episode
// in which a person replied is recorded without token ids, because the model did not sample
// them. The result is nil if the person ended the episode.
func (r *Run) PlayLive(ctx context.Context, o LiveOptions) (ep *data.Episode, err error) {
	o.person = o.Me
	p, err := r.openPlayer(ctx, o.PlayOptions, "")
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return nil, err
	}
	if p.tasks, err = p.chooseTask(ctx, o.Task); err != nil {
		return nil, err
	}
	ctx, quit := context.WithCancelCause(ctx)
	defer quit(nil)
	stage := &stage{Live: o.Live, quit: quit, player: p}
	p.env.Setup = stage.setup(p.env.Setup, o.Me)
	var record *heldEpisodes
	if o.Dump != "" {
		if record, err = p.createDump(ctx, o.Dump); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, errext.With(errext.Disk, "", record.out.Close())) }()
	}
	ro := rolloutOptions(p.host, p.cfg)
	ro.GroupSize, ro.Concurrency, ro.Attempts, ro.Observer, ro.Exchanges = 1, 1, 1, stage, o.Dump != ""
	ro.MaxFailed = math.SmallestNonzeroFloat64 // 0 would mean no limit
	ro.OnEpisode = func(e *data.Episode) error {
		if stage.acted {
			e.ForgetIDs()
		}
		if e.Outcome == data.Cancelled {
			return nil
		}
		ep = e
		if record == nil {
			return nil
		}
		return errext.With(errext.Disk, "", record.out.Write(e))
	}
	_, _, err = rollout.RunEpisodes(ctx, map[string]rollout.Env{p.cfg.Env[0].Name: p.env}, p.tasks, ro)
	if errors.Is(context.Cause(ctx), ErrQuit) {
		return nil, nil
	}
	return ep, p.playError(err)
}

// chooseTask returns the task of an index, from the tasks of the configuration if they have it.
func (p *player) chooseTask(ctx context.Context, index int) ([]data.Task, error) {
	if index < 0 {
		return p.tasks[:1], nil
	}
	if i := slices.IndexFunc(p.tasks, func(t data.Task) bool { return t.Index == index }); i >= 0 {
		return p.tasks[i : i+1], nil
	}
	if p.world.Spec.Prompts {
		return nil, errext.With(errext.Input, "", fmt.Errorf("the tasks of %s have no row %d", p.cfg.Env[0].Called(), index))
	}
	return LoadTasks(ctx, p.host, p.world.Spec, TaskList{Key: "--task", Entries: []string{strconv.Itoa(index)}})
}

// createDump creates the dump of the episode.
func (p *player) createDump(ctx context.Context, file string) (*heldEpisodes, error) {
	hash, err := p.weights(ctx)
	if err != nil {
		return nil, err
	}
	options := p.dumpOptions()
	options[dump.TasksOption] = tasksPart(p.tasks, p.world.Spec.Prompts)
	return p.openDump(RolloutOptions{Dump: file}, dump.Header{}, dump.Header{Weights: hash, Options: options})
}

// stage connects a Live with the engine and the rollout of an episode.
type stage struct {
	Live
	quit   context.CancelCauseFunc
	player *player
	format agent.Format
	acted  bool // a person has replied
}

// setup returns the Setup in which a person may reply in place of the engine of s. If me is
// true, a person writes every reply.
func (g *stage) setup(s agent.Setup, me bool) agent.Setup {
	g.format = s.Format
	if texts, ok := s.Engine.(*text.Engine); ok || me {
		speaker := liveSpeaker{stage: g}
		if !me {
			speaker.model = texts.Speaker
		}
		s.Engine, s.Renderer, s.NoIDs = &text.Engine{Speaker: speaker}, text.Renderer{}, true
		s.Options.MaxContext = math.MaxInt32 // bytes, which no person fills
		s.Options.MaxObsTokens = 0
		return s
	}
	s.Engine = &liveEngine{Engine: s.Engine, stage: g, unsent: map[*engine.Session][]int32{}}
	return s
}

// act returns the reply of a person in the grammar of the format, or person false.
func (g *stage) act(ctx context.Context, turn int) (reply string, person bool, err error) {
	line, person, err := g.Act(ctx, turn)
	if errors.Is(err, ErrQuit) {
		g.quit(ErrQuit)
	}
	if err != nil || !person {
		return "", false, err
	}
	g.acted = true
	reply = inGrammar(g.format, line)
	g.Say(reply)
	return reply, true, nil
}

// inGrammar returns a line in the grammar of a format: the line itself if the format finds an
// action in it, or the line as an action.
func inGrammar(f agent.Format, line string) string {
	if f.Parse(line).OK {
		return line
	}
	for _, reply := range []string{"<action>" + line + "</action>", "Action: " + line} {
		if f.Parse(reply).OK {
			return reply
		}
	}
	return line
}

// Began implements rollout.Observer.
func (g *stage) Began(_ rollout.Running, first string) {
	task, s := g.player.tasks[0], g.player.env.Setup
	g.Live.Began(task, agent.Instruction(task, s.Spec, s.Format, s.Options.Instruction), first)
}

// Turn implements rollout.Observer.
func (g *stage) Turn(_ rollout.Running, t *data.Turn) { g.Live.Turn(t) }

// Ended implements rollout.Observer.
func (g *stage) Ended(_ rollout.Running, e *data.Episode) { g.Live.Ended(e) }

// liveSpeaker lets a person reply in place of a network endpoint, which may be nil.
type liveSpeaker struct {
	stage *stage
	model text.Speaker
}

// Reply implements text.Speaker.
func (l liveSpeaker) Reply(ctx context.Context, r text.Request) (text.Reply, error) {
	reply, person, err := l.stage.act(ctx, r.Params.Turn)
	switch {
	case err != nil:
		return text.Reply{}, err
	case person:
		return text.Reply{Text: reply}, nil
	case l.model == nil:
		return text.Reply{}, errors.New("no model is open that could reply")
	}
	said, err := l.model.Reply(ctx, r)
	if err == nil {
		l.stage.Say(said.Text)
	}
	return said, err
}

// liveEngine lets a person reply in place of a local model.
type liveEngine struct {
	engine.Engine
	stage  *stage
	unsent map[*engine.Session][]int32 // ids that the session lacks: replies of the person, with their prompts
}

// Generate implements engine.Engine.
func (l *liveEngine) Generate(ctx context.Context, s *engine.Session, ids []int32, p engine.Params) (engine.Reply, error) {
	ids = slices.Concat(l.unsent[s], ids)
	reply, person, err := l.stage.act(ctx, p.Turn)
	if err != nil {
		return engine.Reply{}, err
	}
	b, renderer := l.stage.player.bundle, l.stage.player.sampler.Renderer
	if person {
		typed := append(b.Tokenizer.Encode(reply, tokenizer.Options{SplitSpecial: true}), renderer.StopTokens()[0])
		l.unsent[s] = append(ids, typed...)
		return engine.Reply{IDs: typed, LogProbs: make([]float32, len(typed)), Stop: engine.StopEOS}, nil
	}
	delete(l.unsent, s)
	sampled, _, err := streamed(func(each func(engine.Token)) (engine.Reply, error) {
		p.Each = each
		return l.Engine.Generate(ctx, s, ids, p)
	}, renderer.Stream(), renderer.Decode, p.StopTokens, min(p.MaxNew, l.stage.player.sampler.MaxContext), l.stage.Say)
	return sampled, err
}

// Close implements engine.Engine.
func (l *liveEngine) Close(s *engine.Session) {
	delete(l.unsent, s)
	l.Engine.Close(s)
}
