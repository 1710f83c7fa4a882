package algo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/llm/chat"
	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/generate"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// rig is a run with fault injection: the complete trainer with a tiny model. It plays mazes over HTTP on a server that
// can fail, and writes to a disk that can be full. A rig can make several trainers, one after another, to restart
// the run.
type rig struct {
	dir  string
	maze http.Handler

	// onRequest is called for every request. If it returns false, the connection breaks as if the server died. nil
	// accepts all requests.
	onRequest func(path string, body []byte) bool
	// onWrite and onSave return the errors of writing metrics and of saving weights; nil means no errors.
	onWrite func(l track.Line) error
	onSave  func() error
	// onStep is called after every step, onPhase at the beginning of every phase.
	onStep  func(step int)
	onPhase func(p Phase)
	// repair undoes damage to the run folder; nil if there is no damage.
	repair func()

	format string                 // name of the format of prompts; "": react
	play   func(o *agent.Options) // function that changes the options of episodes; nil: no change
	// spoil and spoilCritic change the losses of the actor and the critic; nil: no change.
	spoil, spoilCritic func(torch.Tensor) torch.Tensor

	supervised bool
	course     Course
	shared     bool // the critic shares the actor's decoder
	reference  bool // the loss has a KL to the weights after the warm start
	saveAfter  time.Duration
	steps      int
	options    func(o *Options) // function that changes the options of the run; nil: no change
	keep       int              // number of checkpoints to keep
	onDevice   *torch.Device    // nil: torchtest.Device
	room       int64            // bytes of the device that the run may use; 0: all
	kvTokens   int              // size of the KV cache
	int8       bool             // replies are sampled with int8 copies of the weights
	async      int              // number of steps that are played ahead; above 0 batches are not deterministic
	phases     []seenPhase      // phases that were reported to Events
	ranks      *ranks.Ranks     // processes of the run; nil: one
	made       func(t *Trainer) // called before training; nil: not called
}

// seenPhase is a phase with its reported progress.
type seenPhase struct {
	Phase
	last, calls int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	h, err := builtin.New("maze", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{dir: t.TempDir(), maze: h, steps: 3, keep: 2, kvTokens: 8 * 512}
}

// undisturbed removes all faults.
func (r *rig) undisturbed() {
	r.onRequest, r.onWrite, r.onSave, r.onStep, r.onPhase, r.spoil, r.spoilCritic = nil, nil, nil, nil, nil, nil, nil
	if r.repair != nil {
		r.repair()
	}
}

// killAfter trains and kills the run while it writes the metrics of step+1.
func (r *rig) killAfter(t *testing.T, step int) {
	t.Helper()
	hard, kill := context.WithCancel(t.Context())
	defer kill()
	r.onWrite = func(l track.Line) error {
		if l.Phase == track.PhaseTrain && l.Step > step {
			kill()
		}
		return hard.Err()
	}
	if err := r.fit(t, hard, hard); err == nil {
		t.Fatal("the run was not killed")
	}
	r.undisturbed()
}

// dieInValidation makes the server fail at the n-th episode of a validation.
func (r *rig) dieInValidation(n int32) {
	var begun atomic.Int32
	var dead atomic.Bool
	r.onRequest = func(path string, body []byte) bool {
		if validates(path, body) && begun.Add(1) == n {
			dead.Store(true)
		}
		return !dead.Load()
	}
}

// fit opens the run folder like a new process and trains.
func (r *rig) fit(t *testing.T, ctx, soft context.Context) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(r.serve))
	defer server.Close()
	run := &rundir.Folder{Dir: r.dir}
	must(t, run.Make())
	must(t, os.WriteFile(run.Config(), []byte("# of the test\n"), 0o644))

	thread, err := torch.NewThread(r.device(t))
	must(t, err)
	defer thread.Close()
	defer r.occupy(t, thread)()
	bundle, state, found := r.open(t, ctx, thread, run)
	adamw := optim.AdamWOptions{Beta1: .9, Beta2: .99, Eps: 1e-8}
	actor, err := learner.NewActor(ctx, bundle.Model, torch.Float32, adamw)
	must(t, err)
	defer actor.Close()
	actor.OnBadStep(func(b learner.BadStep) error { return b.Write(run.BadSteps()) })
	actor.SpoilLoss(r.spoil)
	if found != "" {
		must(t, actor.LoadOptimizer(ctx, found))
	}

	template, err := chat.Parse(chatML)
	must(t, err)
	renderer, err := chat.NewRenderer(template, bundle.Tokenizer, bundle.TokenizerConfig.TemplateVars(), time.Now(), bundle.EOSTokenIDs()...)
	must(t, err)
	backend, err := generate.New(ctx, actor.Compute(), generate.Options{KVTokens: r.kvTokens, Int8: r.int8})
	must(t, err)
	defer backend.Close()
	sched, err := engine.New(backend, engine.Options{NewDecoder: renderer.Stream, Deterministic: r.async == 0})
	must(t, err)
	defer sched.Shutdown()

	spec, err := env.Lookup("maze")
	must(t, err)
	pool, err := pool.New(spec, []string{server.URL}, pool.Options{
		Client: env.Options{Timeout: 20 * time.Second, Backoff: time.Millisecond}, WaitHealthy: 50 * time.Millisecond, ProbePause: 5 * time.Millisecond,
	})
	must(t, err)
	defer pool.Close(context.Background())
	format, err := agent.Formats.Lookup(cmp.Or(r.format, "react"))
	must(t, err)
	playing := rollout.Env{Pool: pool, Setup: agent.Setup{
		Engine: sched, Renderer: renderer, Format: format, Spec: spec,
		Options: agent.Options{MaxTurns: 2, MaxNewTokens: 6, MaxContext: 500, Temperature: 1, Instruction: "Go to the goal."},
	}}

	if r.play != nil {
		r.play(&playing.Setup.Options)
	}
	jsonl, err := track.OpenJSONL(run.Metrics())
	must(t, err)
	defer jsonl.Close()
	offset := int64(0)
	if state != nil {
		offset = state.MetricsOffset
	}
	must(t, jsonl.TruncateTo(offset))

	var ref *model.Model
	if r.reference {
		if state != nil && state.WarmStarted {
			b, err := model.Open(ctx, thread, run.Reference(), model.Options{DType: torch.Float32})
			must(t, err)
			defer b.Close()
			ref = b.Model
		} else {
			ref, err = bundle.Model.Shadow(ctx, torch.Float32)
			must(t, err)
			defer ref.Close()
		}
	}

	rows, _, err := learner.SFTRows(expertTasks(), renderer, 512, learner.TruncateError)
	must(t, err)
	base := rollout.Options{Concurrency: 8, Seed: 3, Attempts: 2, Deterministic: r.async == 0}
	o := Options{
		Loop: Loop{
			Seed: 3, Steps: r.steps, SaveEvery: 1, TestEvery: 2, ValBeforeTrain: true, ValUntrained: true, Val: base,
			Keep: r.keep, BestMetric: "mean_score",
		},
		Play:    Play{BatchTasks: 2, Train: base, Shuffle: true, OrderSeed: 5, Course: r.course, AsyncSteps: r.async},
		Scoring: Scoring{Signal: "last", Allocation: "last_token"},
		Update: Update{
			Estimator: "grpo", EstimatorOpts: advantage.Options{Params: registry.Values{"norm_by_std": true}}, Policy: vanillaOptions(),
			AdamW: adamw, Schedule: optim.Schedule{Shape: "constant", Base: 1e-3, Steps: r.steps},
		},
		FreezeReference: r.reference,
		WarmStart: &SFTOptions{
			Rows: rows, Epochs: 3, BatchRows: 1, GradClip: 1, Seed: 3, AdamW: adamw, SaveAfter: r.saveAfter,
			Schedule: func(n int) optim.Schedule { return optim.Schedule{Shape: "linear", Base: 1e-3, Steps: n} },
		},
	}
	if r.reference {
		o.Policy.KLCoef, o.Policy.KLType = .1, "k3"
	}
	o.Train.GroupSize, o.Val.GroupSize, o.Val.Seed, o.Val.MaxFailed = 3, 2, 4, .1
	if r.options != nil {
		r.options(&o)
	}
	group := r.ranks.Trainers()
	o.Policy.Micro.Group, o.RefMicro.Group = group, group
	if o.WarmStart != nil {
		o.WarmStart.Micro.Group = group
	}
	if r.supervised {
		o.Method, o.WarmStart = Supervised{*o.WarmStart}, nil
	}
	if ref == nil && o.needsReference() {
		ref, err = model.New(ctx, thread, tinyConfig(), 12, torch.Float32) // the weights must differ from the actor's
		must(t, err)
		defer ref.Close()
	}
	critic := r.critic(t, ctx, actor, o, found)
	if critic != nil {
		defer critic.Close()
		critic.SpoilLoss(r.spoilCritic)
	}
	trainer, err := New(Parts{
		Checkpoint: found, Ranks: r.ranks,
		Actor: actor, Critic: critic, Ref: ref, Engine: sched, Updated: backend.SetVersion, Run: run, Sink: riggedSink{jsonl, r}, Events: riggedEvents{r: r},
		Envs: []Env{{Name: "maze", Train: playing, Val: playing, Weight: 1, TrainTasks: mazes(17, 18, 2), ValTasks: mazes(valMaze)}},
		Save: func(ctx context.Context, dir string) error {
			if r.onSave != nil {
				if err := r.onSave(); err != nil {
					return err
				}
			}
			return bundle.Save(ctx, dir, torch.Float32)
		},
		SaveCritic: func(ctx context.Context, dir string) error {
			b := *bundle
			b.Model = critic.Master()
			return b.Save(ctx, dir, torch.Float32)
		},
	}, o, state)
	must(t, err)
	if r.made != nil {
		r.made(trainer)
	}
	return trainer.Fit(ctx, soft)
}

// critic makes the configured critic, or loads the critic of a checkpoint.
func (r *rig) critic(t *testing.T, ctx context.Context, a *learner.Actor, o Options, found string) (c *learner.Critic) {
	t.Helper()
	var m *model.Model
	var err error
	switch {
	case o.Critic == nil:
		return nil
	case r.shared:
	case found == "":
		m, err = model.New(ctx, a.Master().Thread(), tinyConfig(), 13, torch.Float32)
		must(t, err)
	default:
		b, err := model.Open(ctx, a.Master().Thread(), filepath.Join(found, learner.CriticFolder), model.Options{DType: torch.Float32})
		must(t, err)
		m = b.Model
	}
	if r.shared {
		c, err = learner.NewSharedCritic(ctx, a, o.Critic.AdamW, 14)
	} else {
		c, err = learner.NewCritic(ctx, m, torch.Float32, o.Critic.AdamW, 14)
	}
	must(t, err)
	if found != "" {
		must(t, c.Load(ctx, found))
	}
	return c
}

// open loads the newest checkpoint, or makes the initial model.
func (r *rig) open(t *testing.T, ctx context.Context, thread *torch.Thread, run *rundir.Folder) (*model.Bundle, *rundir.State, string) {
	t.Helper()
	if _, err := checkpoint.Clean(run.Checkpoints()); err != nil {
		t.Fatal(err)
	}
	c, refused, err := checkpoint.Latest(ctx, run.Checkpoints())
	if len(refused) > 0 {
		t.Fatalf("a checkpoint is damaged: %v", refused)
	}
	if errors.Is(err, checkpoint.ErrNone) {
		tok, err := tokenizer.TrainBPE(nil, tinyVocab, []string{"<|im_start|>", "<|im_end|>"})
		must(t, err)
		m, err := model.New(ctx, thread, tinyConfig(), 11, torch.Float32)
		must(t, err)
		return &model.Bundle{
			Model: m, Tokenizer: tok, TokenizerConfig: tokenizer.Config{EOS: "<|im_end|>", Pad: "<|im_end|>", ChatTemplate: chatML},
		}, nil, ""
	}
	must(t, err)
	st, err := rundir.ReadState(c.Path)
	must(t, err)
	b, err := model.Open(ctx, thread, c.File(rundir.ActorFolder), model.Options{DType: torch.Float32})
	must(t, err)
	return b, &st, c.Path
}

func (r *rig) serve(w http.ResponseWriter, req *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(req.Body)
	if r.onRequest != nil && !r.onRequest(req.URL.Path, body.Bytes()) {
		panic(http.ErrAbortHandler)
	}
	req.Body = readCloser{&body}
	r.maze.ServeHTTP(w, req)
}

type readCloser struct{ *bytes.Buffer }

func (readCloser) Close() error { return nil }

// isStep reports whether l is the line of a training step.
func isStep(l track.Line, step int) bool { return l.Phase == track.PhaseTrain && l.Step == step }

type riggedSink struct {
	track.File
	r *rig
}

func (s riggedSink) Write(l track.Line) error {
	if s.r.onWrite != nil {
		if err := s.r.onWrite(l); err != nil {
			return err
		}
	}
	return s.File.Write(l)
}

type riggedEvents struct {
	noEvents
	r *rig
}

func (e riggedEvents) Phase(p Phase) {
	e.r.phases = append(e.r.phases, seenPhase{Phase: p})
	if e.r.onPhase != nil {
		e.r.onPhase(p)
	}
}

func (e riggedEvents) Progress(n int, _ string) {
	p := &e.r.phases[len(e.r.phases)-1]
	p.last, p.calls = n, p.calls+1
}

func (e riggedEvents) Step(step, _ int, _ map[string]float64) {
	if e.r.onStep != nil {
		e.r.onStep(step)
	}
}

// valMaze is the start cell of validation episodes. No other episode starts there.
const valMaze = 16

func mazes(indices ...int) []data.Task {
	var tasks []data.Task
	for _, i := range indices {
		tasks = append(tasks, data.Task{ID: "maze_" + string(rune('a'+i)), Env: "maze", Index: i})
	}
	return tasks
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// validates reports whether a request begins a validation episode.
func validates(path string, body []byte) bool {
	var reset struct{ Game *int }
	return strings.HasSuffix(path, "/reset") && json.Unmarshal(body, &reset) == nil && reset.Game != nil && *reset.Game == valMaze
}
