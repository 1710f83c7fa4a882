package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"strings"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/errext"
)

// WorldOptions say how an environment is reached.
type WorldOptions struct {
	Name       string
	Unplayed   bool           // nothing is played: no server is started or asked, and there is no pool
	Servers    []string       // empty, without Launch: the built-in server is started
	Launch     *LaunchOptions // nil: no server of the user's is started
	Recipes    string
	Vocabulary string
	Parser     string
	Actions    string // action format
	Timeout    time.Duration
	Timeouts   env.Timeouts
	Retries    int // of create and reset, after the first try
	// The limits of a server; 0 leaves them to what is known of its kind.
	MaxInstances, MaxRequests, QuarantineAfter int
	// WaitHealthy is how long servers that are all down are waited for.
	WaitHealthy time.Duration
}

// World is an environment that can be played: its spec, a pool of instances
// and the servers that were started for it: the user's, or, where nobody named
// one, the built-in one.
type World struct {
	log    *slog.Logger
	Spec   env.Spec
	Pool   *pool.Pool          // nil: nothing is played
	Server *builtin.Server     // nil: it is not in use
	group  *supervise.Group    // nil: none was started
	words  *builtin.Vocabulary // of the built-in wordle; nil: its own
}

// closeTimeout bounds how long giving instances back may take at the end.
const closeTimeout = 20 * time.Second

// OpenWorld starts what has to be started. ctx ends the built-in server too.
func OpenWorld(ctx context.Context, h *Host, o WorldOptions) (*World, error) {
	spec, err := env.Lookup(o.Name)
	if err != nil {
		return nil, errext.With(errext.Input, "", err)
	}
	w := &World{log: h.Log, Spec: spec}
	urls := o.Servers
	var opened atomic.Pointer[pool.Pool] // who is told of restarts, when it is there
	switch {
	case o.Unplayed && (o.Launch != nil || len(urls) > 0):
		return w, nil
	case o.Launch != nil:
		w.group, err = LaunchServers(ctx, h, o.Name, *o.Launch,
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
		urls = w.group.URLs()
	case len(urls) == 0:
		if !slices.Contains(builtin.Names(), o.Name) {
			return nil, errext.With(errext.Input, "name its servers", fmt.Errorf("environment %s has no built-in server", o.Name))
		}
		bo := builtin.Options{Log: h.Log}
		if o.Recipes != "" {
			if bo.Recipes, err = LoadRecipes(h, o.Recipes); err != nil {
				return nil, err
			}
		}
		if o.Vocabulary != "" {
			if w.words, err = LoadVocabulary(h, o.Vocabulary); err != nil {
				return nil, err
			}
			bo.Vocabulary = w.words
		}
		if o.Name == "textcraft" {
			w.Spec.IndexValid = inBook(bo.Recipes)
		}
		if o.Unplayed {
			return w, nil
		}
		if w.Server, err = builtin.Serve(context.WithoutCancel(ctx), o.Name, "127.0.0.1:0", bo); err != nil {
			return nil, errext.With(errext.Env, "", fmt.Errorf("start the built-in server: %w", err))
		}
		urls = []string{w.Server.URL}
	}
	w.Pool, err = pool.New(spec, urls, pool.Options{
		Client: env.Options{Parser: action.Parser(o.Parser), ActionFormat: action.Format(o.Actions), Timeout: o.Timeout, Timeouts: o.Timeouts, Attempts: o.Retries + 1},
		Log:    h.Log,

		MaxPerServer: o.MaxInstances, MaxRequests: o.MaxRequests, QuarantineAfter: o.QuarantineAfter,

		WaitHealthy: cmp.Or(h.WaitHealthy, o.WaitHealthy),
	})
	if err != nil {
		return nil, errors.Join(errext.With(errext.Input, "", err), w.Close())
	}
	opened.Store(w.Pool)
	if len(o.Servers) > 0 {
		if err := w.Pool.Check(ctx); err != nil {
			return nil, errors.Join(downError(err), w.Close())
		}
	}
	return w, nil
}

// inBook refuses the indices from the end of a recipe book on. Servers wrap
// them around, so that two indices are one task: one of them may be trained on
// and the other validated. Of a user's server nobody knows how many it has.
func inBook(book *builtin.Book) func(int) error {
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

// downError gives the error of servers that do not answer, or are of another
// environment, its exit code.
func downError(err error) error {
	var down *pool.DownError
	var other *env.OtherEnvError
	switch {
	case errors.As(err, &other):
		return errext.With(errext.Env, "correct the addresses of the servers, or the environment's name", err)
	case !errors.As(err, &down):
		return err
	}
	return errext.With(errext.Env, "see to the servers, or leave them out for the built-in one where there is one", err)
}

// Close gives instances back and stops the servers that were started.
func (w *World) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	if w.Pool != nil {
		errs = append(errs, w.Pool.Close(ctx))
	}
	if w.Server != nil {
		errs = append(errs, w.Server.Close(ctx))
	}
	if w.group != nil {
		errs = append(errs, w.group.Close(ctx))
	}
	return errors.Join(errs...)
}

// LaunchOptions say which servers of an environment are started, and how.
type LaunchOptions struct {
	supervise.Launch
	Servers      int
	BasePort     int
	StartTimeout time.Duration // 0: the recipe's
	HangTimeout  time.Duration // 0: a server that hangs is left to itself
	Logs         string        // folder
}

// LaunchOf says how the servers of a configured environment are started; nil
// where they are not. Their logs go to a folder of the run.
func LaunchOf(e configs.Env, logs string) *LaunchOptions {
	if !e.Launch {
		return nil
	}
	return &LaunchOptions{
		Launch: supervise.Launch{
			Checkout: e.Checkout, Workdir: e.Workdir, Command: e.Command, Python: e.Python, Venv: e.Venv, Set: e.Environment,
		},
		Servers: e.NumServers, BasePort: e.BasePort, StartTimeout: Seconds(e.StartTimeoutS), HangTimeout: Seconds(e.HangTimeoutS), Logs: logs,
	}
}

// LaunchServers starts servers and returns when all answer.
func LaunchServers(ctx context.Context, h *Host, name string, o LaunchOptions, onReady func(string, int), onDown func(string, error)) (*supervise.Group, error) {
	l := o.Launch
	for _, path := range []*string{&l.Checkout, &l.Workdir, &l.Venv} {
		if *path != "" {
			*path = h.Path(*path)
		}
	}
	if strings.Contains(l.Python, "/") {
		l.Python = h.Path(l.Python)
	}
	plan, err := supervise.NewPlan(name, l, h.Environ())
	if err != nil {
		return nil, errext.With(errext.Input, "", err)
	}
	if o.StartTimeout > 0 {
		plan.StartTimeout = o.StartTimeout
	}
	h.Log.Info("starting environment servers", "env", name, "servers", o.Servers, "base_port", o.BasePort, "logs", o.Logs)
	g, err := supervise.Start(ctx, supervise.Options{
		Name: name, Command: plan.Command, Servers: o.Servers, BasePort: o.BasePort, LogDir: h.Path(o.Logs),
		StartTimeout: plan.StartTimeout, HangTimeout: o.HangTimeout, OnReady: onReady, OnDown: onDown, Log: h.Log,
	})
	if err != nil && ctx.Err() != nil {
		return nil, err // the user had enough
	}
	hint := ""
	if plan.NotInstalled(err) {
		hint = "run this first: openmanus env install " + name + " --checkout " + errext.ShellQuote(o.Checkout)
	}
	return g, errext.With(errext.Env, hint, err)
}

// LoadRecipes reads a folder of Minecraft recipe files.
func LoadRecipes(h *Host, dir string) (*builtin.Book, error) {
	book, err := builtin.LoadBook(h.DirFS(dir), ".")
	if err != nil {
		return nil, errext.With(errext.Input, "give a folder of Minecraft recipe JSON files", fmt.Errorf("recipes in %s: %w", dir, err))
	}
	return book, nil
}

// MaxVocabulary is more words than a language has.
const MaxVocabulary = 1 << 20

// LoadVocabulary reads a file of words.
func LoadVocabulary(h *Host, file string) (*builtin.Vocabulary, error) {
	b, err := h.ReadFile(file, MaxVocabulary)
	if err != nil {
		return nil, errext.With(errext.Input, "give a text file of five-letter words", fmt.Errorf("vocabulary: %w", err))
	}
	v, err := builtin.ParseVocabulary(string(b))
	if err != nil {
		return nil, errext.With(errext.Input, "give a text file of five-letter words", fmt.Errorf("vocabulary %s: %w", file, err))
	}
	return v, nil
}

// WorldOf says how a configured environment is reached.
func WorldOf(e configs.Env) WorldOptions {
	return WorldOptions{
		Name: e.Name, Servers: e.Servers, Recipes: e.Recipes, Vocabulary: e.Vocabulary, Parser: e.Parser, Actions: e.ActionFormat,
		Timeout: Seconds(e.TimeoutS), Retries: e.Retries, WaitHealthy: Seconds(e.WaitHealthyS),
		Timeouts: env.Timeouts{
			Create: Seconds(e.CreateTimeoutS), Reset: Seconds(e.ResetTimeoutS), Step: Seconds(e.StepTimeoutS),
			Observe: Seconds(e.ObserveTimeoutS), Close: Seconds(e.CloseTimeoutS),
		},
		MaxInstances: e.MaxInstances, MaxRequests: e.MaxRequests, QuarantineAfter: e.QuarantineAfter,
	}
}
