package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
)

// worldOptions say how an environment is reached.
type worldOptions struct {
	Name    string
	Servers []string // empty: the built-in server is started
	Recipes string
	Parser  string
	Actions string // action format
	Timeout time.Duration
	Retries int
}

// world is an environment that can be played: its spec, a pool of instances
// and, where nobody named a server, the built-in one.
type world struct {
	spec   env.Spec
	pool   *env.Pool
	server *builtin.Server // nil: the servers are the user's
}

// closeTimeout bounds how long giving instances back may take at the end.
const closeTimeout = 20 * time.Second

// openWorld starts what has to be started. ctx ends the built-in server too.
func (s *State) openWorld(ctx context.Context, o worldOptions) (*world, error) {
	spec, err := env.Lookup(o.Name)
	if err != nil {
		return nil, errWith(ExitInput, "", err)
	}
	w := &world{spec: spec}
	urls := o.Servers
	if len(urls) == 0 {
		if !isBuiltin(o.Name) {
			return nil, errWith(ExitInput, "name its servers", fmt.Errorf("environment %s has no built-in server", o.Name))
		}
		bo := builtin.Options{Log: s.Log}
		if o.Recipes != "" {
			if bo.Recipes, err = s.loadRecipes(o.Recipes); err != nil {
				return nil, err
			}
		}
		if w.server, err = builtin.Serve(context.WithoutCancel(ctx), o.Name, "127.0.0.1:0", bo); err != nil {
			return nil, errWith(ExitEnv, "", fmt.Errorf("start the built-in server: %w", err))
		}
		urls = []string{w.server.URL}
	}
	w.pool, err = env.NewPool(spec, urls, env.PoolOptions{
		Client: env.Options{Parser: env.Parser(o.Parser), ActionFormat: env.ActionFormat(o.Actions), Timeout: o.Timeout, Attempts: o.Retries},
		Log:    s.Log,

		WaitHealthy: s.waitHealthy,
	})
	if err != nil {
		return nil, errors.Join(errWith(ExitInput, "", err), w.close())
	}
	return w, nil
}

// close gives instances back and stops the built-in server.
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
	return errors.Join(errs...)
}
