package builtin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/env/listen"
)

// DefaultInstances is the default of Options.Instances.
const DefaultInstances = 1 << 16

// Options configures a server. The zero value is usable.
type Options struct {
	Recipes    *Book       // recipes of textcraft; nil: OwnBook
	Vocabulary *Vocabulary // words of wordle; nil: OwnVocabulary
	Faults     *fault.Plan // faults to inject; nil: none
	Instances  int         // most instances at once; 0: DefaultInstances
	Log        *slog.Logger
}

// Names returns the environments that have a built-in server.
func Names() []string { return []string{"maze", "textcraft", "wordle"} }

// New returns a handler that serves the named environment. The paths are the
// same as on AgentGym's server: the paths of the maze begin with /maze.
func New(name string, o Options) (http.Handler, error) {
	limit := o.Instances
	if limit <= 0 {
		limit = DefaultInstances
	}
	if o.Recipes != nil && name != "textcraft" {
		return nil, fmt.Errorf("built-in server %s does not use recipes: only textcraft does", name)
	}
	if o.Vocabulary != nil && name != "wordle" {
		return nil, fmt.Errorf("built-in server %s does not use a vocabulary: only wordle does", name)
	}
	var h http.Handler
	switch name {
	case "maze":
		h = newMazeServer(limit)
	case "textcraft":
		h = newTextcraftServer(cmp.Or(o.Recipes, OwnBook()), limit)
	case "wordle":
		h = newWordleServer(cmp.Or(o.Vocabulary, OwnVocabulary()), limit)
	default:
		return nil, fmt.Errorf("no built-in server for environment %q; available: %s", name, strings.Join(Names(), ", "))
	}
	return fault.New(h, o.Faults, nil), nil
}

// Server is a running server. Its URL does not include the path of the environment.
type Server = listen.Server

// Serve starts the server of the named environment on addr, such as
// "127.0.0.1:36001"; port 0 selects a free port. The server stops when ctx ends or
// Close is called. Close must be called in both cases.
func Serve(ctx context.Context, name, addr string, o Options) (*Server, error) {
	h, err := New(name, o)
	if err != nil {
		return nil, err
	}
	return listen.Serve(ctx, name, addr, h, o.Log)
}
