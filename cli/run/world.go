package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/errext"
)

// WorldOptions configures OpenWorld.
type WorldOptions struct {
	Logs     string // folder of the logs of servers that env.launch starts
	SpecOnly bool   // do not start or call servers, since the run plays nothing
}

// World is an environment with its servers: the servers of env.servers, started
// by env.launch, or else the built-in server.
type World struct {
	log    *slog.Logger
	Spec   env.Spec
	Pool   *pool.Pool          // nil with SpecOnly
	Server *builtin.Server     // nil unless the built-in server is used
	words  *builtin.Vocabulary // words of the built-in wordle; nil: the default words

	closers []func(context.Context) error // called in reverse order
}

// closeTimeout bounds World.Close.
const closeTimeout = 20 * time.Second

// OpenWorld opens the environment of an [[env]] table and starts its
// servers if needed. Servers started by env.launch stop when ctx ends.
func OpenWorld(ctx context.Context, h *Host, e configs.Env, o WorldOptions) (*World, error) {
	w := &World{log: h.Log}
	var judge env.Judge
	var err error
	if e.Kind == configs.KindPrompt && !o.SpecOnly {
		var closeJudge func(context.Context) error
		if judge, closeJudge, err = openJudge(ctx, h, e); err != nil {
			return nil, err
		}
		w.closers = append(w.closers, closeJudge)
	}
	spec, err := specOf(e, judge)
	if err != nil {
		return nil, err
	}
	w.Spec = spec
	if e, err = sharedServers(h, e, spec); err != nil {
		return nil, err
	}
	urls := e.Servers
	var opened atomic.Pointer[pool.Pool] // set when the pool is open; the pool gets reports of server restarts
	switch {
	case o.SpecOnly && (e.Launch || len(urls) > 0 || spec.Prompts):
		return w, nil
	case spec.Prompts: // no servers
	case e.Launch:
		starting := h.Progress("starting the servers of "+e.Name, 0)
		defer starting.Done()
		e, logs := ownPorts(h, e, o.Logs)
		group, err := LaunchServers(ctx, h, e, logs,
			func(url string, restarts int) {
				if p := opened.Load(); p != nil && restarts > 0 {
					p.ServerUp(url)
				}
			},
			func(url string, err error) {
				if p := opened.Load(); p != nil {
					p.ServerDown(url, err)
				}
			})
		if err != nil {
			return nil, err
		}
		w.closers = append(w.closers, group.Close)
		urls = group.URLs()
	case len(urls) == 0:
		bo, err := w.builtinOptions(h, e)
		if err != nil || o.SpecOnly {
			return w, err
		}
		if w.Server, err = builtin.Serve(context.WithoutCancel(ctx), e.Name, "127.0.0.1:0", bo); err != nil {
			return nil, errext.With(errext.Env, "", fmt.Errorf("start the built-in server: %w", err))
		}
		w.closers = append(w.closers, w.Server.Close)
		urls = []string{w.Server.URL}
	}
	w.Pool, err = pool.New(spec, urls, pool.Options{
		Client: env.Options{
			Parser: action.Parser(e.Parser), ActionFormat: action.Format(e.ActionFormat), Attempts: e.Retries + 1, Timeout: Seconds(e.TimeoutS),
			Timeouts: env.Timeouts{
				Create: Seconds(e.CreateTimeoutS), Reset: Seconds(e.ResetTimeoutS), Step: Seconds(e.StepTimeoutS),
				Observe: Seconds(e.ObserveTimeoutS), Close: Seconds(e.CloseTimeoutS),
			},
		},
		Log:          h.Log,
		MaxPerServer: e.MaxInstances, MaxRequests: e.MaxRequests, QuarantineAfter: e.QuarantineAfter,
		WaitHealthy: cmp.Or(h.WaitHealthy, Seconds(e.WaitHealthyS)),
	})
	if err != nil {
		return nil, errors.Join(errext.With(errext.Input, "", err), w.Close())
	}
	w.closers = append(w.closers, w.Pool.Close)
	opened.Store(w.Pool)
	if len(e.Servers) > 0 {
		if err := h.during("checking the servers of "+e.Name, func() error { return w.Pool.Check(ctx) }); err != nil {
			return nil, errors.Join(withServerHint(err), w.Close())
		}
	}
	return w, nil
}

// openSetup opens the environment of an [[env]] table, and the prompt format and
// the options of its training episodes. The functions that release them are added to the parameter open.
func openSetup(ctx context.Context, h *Host, open *Closers, cfg configs.Config, e configs.Env, o WorldOptions) (*World, agent.Setup, error) {
	w, err := OpenWorld(ctx, h, e, o)
	if err != nil {
		return nil, agent.Setup{}, err
	}
	open.Add(w.Close)
	s := agent.Setup{Spec: w.Spec}
	if s.Format, err = OpenFormat(ctx, h, open, w.Spec, cfg, e); err != nil {
		return nil, s, err
	}
	s.Options, err = agentOptions(h, cfg, e)
	return w, s, err
}

// builtinOptions returns the options of the built-in server, and sets the
// vocabulary and the valid indices of w.
func (w *World) builtinOptions(h *Host, e configs.Env) (o builtin.Options, err error) {
	if !slices.Contains(builtin.Names(), e.Name) {
		return o, errext.With(errext.Input, "set env.servers", fmt.Errorf("environment %s has no built-in server", e.Name))
	}
	o.Log = h.Log
	if e.Recipes != "" {
		if o.Recipes, err = LoadRecipes(h, e.Recipes); err != nil {
			return o, err
		}
	}
	if e.Vocabulary != "" {
		if w.words, err = LoadVocabulary(h, e.Vocabulary); err != nil {
			return o, err
		}
		o.Vocabulary = w.words
	}
	if e.Name == "textcraft" {
		w.Spec.IndexValid = indexInBook(o.Recipes)
	}
	return o, nil
}

// indexInBook returns a function that checks that an index is within the recipe book
// of the built-in server. Servers wrap larger indices around, so that a training
// task and a validation task with different indices could be the same task.
func indexInBook(book *builtin.Book) func(int) error {
	if book == nil {
		book = builtin.OwnBook()
	}
	n := book.Len()
	return func(index int) error {
		if index >= n {
			return fmt.Errorf("the recipe book of the built-in server has tasks 0 to %d", n-1)
		}
		return nil
	}
}

// withServerHint adds the exit code and a hint to the error of servers that are
// down or serve another environment.
func withServerHint(err error) error {
	switch {
	case is[*env.OtherEnvError](err):
		return errext.With(errext.Env, "correct the addresses of the servers, or the environment's name", err)
	case is[*pool.DownError](err):
		return errext.With(errext.Env, "start the servers, or remove env.servers to use the built-in server if the environment has one", err)
	}
	return err
}

// Close releases the instances and stops the servers that OpenWorld started.
func (w *World) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	for _, f := range slices.Backward(w.closers) {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

// launchPlan completes the command of the servers that env.launch starts.
func launchPlan(h *Host, e configs.Env) (supervise.Plan, error) {
	l := supervise.Launch{
		Checkout: h.Path(e.Checkout), Workdir: h.Path(e.Workdir), Command: e.Command, Python: e.Python, Venv: h.Path(e.Venv), Set: e.Environment,
	}
	if e.Kind == configs.KindAgentGym && e.Workdir == "" { // the paths of the command are relative, as those of the configuration
		l.Workdir = h.Path(".")
	}
	if strings.Contains(l.Python, "/") {
		l.Python = h.Path(l.Python)
	}
	plan, err := supervise.NewPlan(e.Name, l, h.Environ())
	if err != nil {
		return plan, errext.With(errext.Input, "", err)
	}
	return plan, nil
}

// CheckLaunch returns an error if the servers of an [[env]] table with launch cannot be
// started because a program, a folder or another requirement is missing.
func CheckLaunch(h *Host, e configs.Env) error {
	plan, err := launchPlan(h, e)
	if err == nil {
		err = plan.Check()
	}
	return withInstallHint(plan, e, err)
}

// LaunchServers starts the servers of an [[env]] table and returns when all respond.
// The parameter logs is the folder of the servers' logs. Unless nil, onReady is called when a server
// responds, at first or after a restart, and onDown when a server has ended.
func LaunchServers(ctx context.Context, h *Host, e configs.Env, logs string, onReady func(url string, restarts int), onDown func(url string, err error)) (*supervise.Group, error) {
	plan, err := launchPlan(h, e)
	if err != nil {
		return nil, err
	}
	h.Log.Info("starting environment servers", "env", e.Name, "servers", e.NumServers, "base_port", e.BasePort, "logs", logs)
	g, err := supervise.Start(ctx, supervise.Options{
		Name: e.Name, Command: plan.Command, Servers: e.NumServers, BasePort: e.BasePort, LogDir: h.Path(logs),
		StartTimeout: cmp.Or(Seconds(e.StartTimeoutS), plan.StartTimeout), HangTimeout: Seconds(e.HangTimeoutS),
		OnReady: onReady, OnDown: onDown, Log: h.Log,
	})
	if err != nil && ctx.Err() != nil { // interrupted
		return nil, err
	}
	return g, withInstallHint(plan, e, err)
}

// withInstallHint adds a hint to an error of servers whose Python environment is not installed.
func withInstallHint(plan supervise.Plan, e configs.Env, err error) error {
	hint := ""
	if plan.NotInstalled(err) {
		hint = "run this first: openmanus env install " + e.Name + " --checkout " + errext.ShellQuote(e.Checkout)
	}
	return errext.With(errext.Env, hint, err)
}

// LoadRecipes reads a folder of Minecraft recipe files.
func LoadRecipes(h *Host, dir string) (*builtin.Book, error) {
	book, err := builtin.LoadBook(h.DirFS(dir), ".")
	if err != nil {
		return nil, errext.With(errext.Input, "give a folder of Minecraft recipe JSON files", fmt.Errorf("recipes in %s: %w", dir, err))
	}
	return book, nil
}

// maxVocabulary bounds the size in bytes of a vocabulary file.
const maxVocabulary = 1 << 20

// LoadVocabulary reads a file of five-letter words.
func LoadVocabulary(h *Host, file string) (*builtin.Vocabulary, error) {
	b, err := h.ReadFile(file, maxVocabulary)
	var v *builtin.Vocabulary
	if err == nil {
		v, err = builtin.ParseVocabulary(string(b))
	}
	if err != nil {
		return nil, errext.With(errext.Input, "give a text file of five-letter words", fmt.Errorf("vocabulary %s: %w", file, err))
	}
	return v, nil
}
