package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/internal/errext"
)

func serveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "host", Value: "127.0.0.1", Usage: "address to listen on; other addresses than the default are reachable from the network"},
		&cli.IntFlag{Name: "port", Value: 36001, Usage: "port to listen on; 0: a free one"},
		&cli.StringFlag{Name: "fault", Usage: "faults to inject: " + fault.Help},
		&cli.StringFlag{Name: "recipes", Usage: "`DIR` of Minecraft recipe files for textcraft"},
		&cli.StringFlag{Name: "vocabulary", Usage: "`FILE` of five-letter words for wordle"},
	}
}

// envServe serves an environment until it is interrupted, and then succeeds.
func envServe(ctx context.Context, s *State, c *cli.Context) error {
	name := c.Args().First()
	addr, o, err := s.parseServe(c, name)
	if err != nil {
		return err
	}
	in := s.Interrupts(ctx)
	server, err := builtin.Serve(in.Hard, name, addr, o)
	if err != nil {
		return errext.With(errext.Env, "choose another --port; 0 selects a free port", err)
	}
	if err := s.print([]byte("serving " + name + " at " + server.URL + "\n")); err != nil {
		return closing(in.Hard, server, err)
	}
	select {
	case <-in.Soft.Done():
	case <-server.Done():
	}
	return closing(in.Hard, server, nil)
}

// closing stops the server and returns the first error.
func closing(ctx context.Context, server interface{ Close(context.Context) error }, err error) error {
	if cerr := server.Close(ctx); err == nil {
		err = errext.With(errext.Env, "", cerr)
	}
	return err
}

func (s *State) parseServe(c *cli.Context, name string) (addr string, o builtin.Options, err error) {
	if !slices.Contains(builtin.Names(), name) {
		if name == "" {
			return "", o, usagef("env serve needs a name: %s", strings.Join(builtin.Names(), ", "))
		}
		hint := "built-in servers: " + strings.Join(builtin.Names(), ", ")
		if near := registry.Nearest(name, builtin.Names()); near != "" {
			hint = "did you mean " + near + "? " + hint
		}
		return "", o, errext.With(errext.Usage, hint, fmt.Errorf("unknown built-in server %q", name))
	}
	f := flagFaults{}
	port := c.Int("port")
	if port < 0 || port > 65535 {
		f.add("port", "%d is not allowed; allowed: 0 to 65535", port)
	}
	faults, err := fault.Parse(c.String("fault"))
	if err != nil {
		f.add("fault", "%v", err)
	}
	recipes := c.String("recipes")
	if recipes != "" && name != "textcraft" {
		f.add("recipes", "only textcraft reads recipes: remove the flag")
	}
	vocabulary := c.String("vocabulary")
	if vocabulary != "" && name != "wordle" {
		f.add("vocabulary", "only wordle reads a vocabulary: remove the flag")
	}
	if err := f.err(); err != nil {
		return "", o, err
	}
	o = builtin.Options{Faults: faults, Log: s.Log}
	if recipes != "" {
		if o.Recipes, err = run.LoadRecipes(&s.Host, recipes); err != nil {
			return "", o, err
		}
	}
	if vocabulary != "" {
		if o.Vocabulary, err = run.LoadVocabulary(&s.Host, vocabulary); err != nil {
			return "", o, err
		}
	}
	return net.JoinHostPort(c.String("host"), strconv.Itoa(port)), o, nil
}
