package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/pool"
	"github.com/openmanus/openmanus/env/supervise"
	"github.com/openmanus/openmanus/internal/errext"
)

// worldOptions say how an environment is reached.
type worldOptions struct {
	Name       string
	Unplayed   bool           // nothing is played: no server is started or asked, and there is no pool
	Servers    []string       // empty, without Launch: the built-in server is started
	Launch     *launchOptions // nil: no server of the user's is started
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

// world is an environment that can be played: its spec, a pool of instances
// and the servers that were started for it: the user's, or, where nobody named
// one, the built-in one.
type world struct {
	log    *slog.Logger
	spec   env.Spec
	pool   *pool.Pool          // nil: nothing is played
	server *builtin.Server     // nil: it is not in use
	group  *supervise.Group    // nil: none was started
	words  *builtin.Vocabulary // of the built-in wordle; nil: its own
}

// closeTimeout bounds how long giving instances back may take at the end.
const closeTimeout = 20 * time.Second

// openWorld starts what has to be started. ctx ends the built-in server too.
func (s *State) openWorld(ctx context.Context, o worldOptions) (*world, error) {
	spec, err := env.Lookup(o.Name)
	if err != nil {
		return nil, errext.With(errext.Input, "", err)
	}
	w := &world{log: s.Log, spec: spec}
	urls := o.Servers
	var opened atomic.Pointer[pool.Pool] // who is told of restarts, when it is there
	switch {
	case o.Unplayed && (o.Launch != nil || len(urls) > 0):
		return w, nil
	case o.Launch != nil:
		w.group, err = s.launch(ctx, o.Name, *o.Launch,
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
		if !isBuiltin(o.Name) {
			return nil, errext.With(errext.Input, "name its servers", fmt.Errorf("environment %s has no built-in server", o.Name))
		}
		bo := builtin.Options{Log: s.Log}
		if o.Recipes != "" {
			if bo.Recipes, err = s.loadRecipes(o.Recipes); err != nil {
				return nil, err
			}
		}
		if o.Vocabulary != "" {
			if w.words, err = s.loadVocabulary(o.Vocabulary); err != nil {
				return nil, err
			}
			bo.Vocabulary = w.words
		}
		if o.Name == "textcraft" {
			w.spec.IndexValid = inBook(bo.Recipes)
		}
		if o.Unplayed {
			return w, nil
		}
		if w.server, err = builtin.Serve(context.WithoutCancel(ctx), o.Name, "127.0.0.1:0", bo); err != nil {
			return nil, errext.With(errext.Env, "", fmt.Errorf("start the built-in server: %w", err))
		}
		urls = []string{w.server.URL}
	}
	w.pool, err = pool.New(spec, urls, pool.Options{
		Client: env.Options{Parser: action.Parser(o.Parser), ActionFormat: action.Format(o.Actions), Timeout: o.Timeout, Timeouts: o.Timeouts, Attempts: o.Retries + 1},
		Log:    s.Log,

		MaxPerServer: o.MaxInstances, MaxRequests: o.MaxRequests, QuarantineAfter: o.QuarantineAfter,

		WaitHealthy: cmp.Or(s.waitHealthy, o.WaitHealthy),
	})
	if err != nil {
		return nil, errors.Join(errext.With(errext.Input, "", err), w.close())
	}
	opened.Store(w.pool)
	if len(o.Servers) > 0 {
		if err := w.pool.Check(ctx); err != nil {
			return nil, errors.Join(downError(err), w.close())
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

// close gives instances back and stops the servers that were started.
func (w *world) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	if w.pool != nil {
		errs = append(errs, w.pool.Close(ctx))
	}
	if w.server != nil {
		errs = append(errs, w.server.Close(ctx))
	}
	if w.group != nil {
		errs = append(errs, w.group.Close(ctx))
	}
	return errors.Join(errs...)
}
