package cli

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/internal/errext"
)

func serveCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "serve",
		Usage:     "serve a built-in environment over HTTP until interrupted",
		ArgsUsage: strings.Join(builtin.Names(), "|"),
		Flags: append(listenFlags(36001),
			&cli.StringFlag{Name: "recipes", Usage: "`DIR` of Minecraft recipe files for textcraft"},
			&cli.StringFlag{Name: "vocabulary", Usage: "`FILE` of five-letter words for wordle"}),
	}, 1, 1, envServe)
}

// listenFlags returns the flags that serve and proxy share.
func listenFlags(port int) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "host", Value: "127.0.0.1", Usage: "address to listen on; other addresses than the default are reachable from the network"},
		&cli.IntFlag{Name: "port", Value: port, Usage: "port to listen on; 0: a free one"},
		&cli.StringFlag{Name: "fault", Usage: "faults to inject: " + fault.Help},
	}
}

// listen returns the address to listen on and the plan of faults to inject, from listenFlags.
func (f *flagFaults) listen(c *cli.Context) (addr string, faults *fault.Plan) {
	port := c.Int("port")
	if port < 0 || port > 65535 {
		f.add("port", "%d is not allowed; allowed: 0 to 65535", port)
	}
	faults, err := fault.Parse(c.String("fault"))
	if err != nil {
		f.add("fault", "%v", err)
	}
	return net.JoinHostPort(c.String("host"), strconv.Itoa(port)), faults
}

// envServe serves an environment until it is interrupted, and then succeeds.
func envServe(_ context.Context, s *State, c *cli.Context) (err error) {
	name, recipes, vocabulary := c.Args().First(), c.String("recipes"), c.String("vocabulary")
	if !slices.Contains(builtin.Names(), name) {
		return unknown("built-in server", name, builtin.Names())
	}
	f := flagFaults{}
	addr, faults := f.listen(c)
	if recipes != "" && name != "textcraft" {
		f.add("recipes", "only textcraft reads recipes: remove the flag")
	}
	if vocabulary != "" && name != "wordle" {
		f.add("vocabulary", "only wordle reads a vocabulary: remove the flag")
	}
	if err := f.err(); err != nil {
		return err
	}
	o := builtin.Options{Faults: faults, Log: s.Log}
	if recipes != "" {
		if o.Recipes, err = run.LoadRecipes(&s.Host, recipes); err != nil {
			return err
		}
	}
	if vocabulary != "" {
		if o.Vocabulary, err = run.LoadVocabulary(&s.Host, vocabulary); err != nil {
			return err
		}
	}
	server, err := builtin.Serve(s.interrupts.Hard, name, addr, o)
	if err != nil {
		return errext.With(errext.Env, "choose another --port; 0 selects a free port", err)
	}
	return s.serve(server, "serving "+name+" at "+server.URL)
}

// listener is a server that runs until Close, or until it fails.
type listener interface {
	Done() <-chan struct{}
	Close(context.Context) error
}

// serve prints line and closes the server after an interrupt. It returns the
// first error.
func (s *State) serve(server listener, line string) error {
	err := s.print([]byte(line + "\n"))
	if err == nil {
		select {
		case <-s.interrupts.Soft.Done():
		case <-server.Done():
		}
	}
	return cmp.Or(err, errext.With(errext.Env, "", server.Close(s.interrupts.Hard)))
}
