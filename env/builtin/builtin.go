package builtin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/env/listen"
)

// DefaultInstances is how many instances a server holds at most.
const DefaultInstances = 1 << 16

// Options configures a server. The zero value is usable.
type Options struct {
	Recipes    *Book       // textcraft's; nil for the project's own
	Vocabulary *Vocabulary // wordle's; nil for its usual forty words
	Faults     *fault.Plan // nil for none
	Instances  int         // limit, DefaultInstances if 0
	Log        *slog.Logger
}

// Names lists the environments there are servers for.
func Names() []string { return []string{"maze", "textcraft", "wordle"} }

// New makes a server of the named environment as a handler. Its endpoints
// hang where the original's do, so maze's are under /maze.
func New(name string, o Options) (http.Handler, error) {
	limit := o.Instances
	if limit <= 0 {
		limit = DefaultInstances
	}
	if o.Recipes != nil && name != "textcraft" {
		return nil, fmt.Errorf("built-in server %s takes no recipes: they are for textcraft", name)
	}
	if o.Vocabulary != nil && name != "wordle" {
		return nil, fmt.Errorf("built-in server %s takes no vocabulary: it is for wordle", name)
	}
	var h http.Handler
	switch name {
	case "maze":
		h = newMazeServer(limit)
	case "textcraft":
		book := o.Recipes
		if book == nil {
			book = OwnBook()
		}
		h = newTextcraftServer(book, limit)
	case "wordle":
		words := o.Vocabulary
		if words == nil {
			words = OwnVocabulary()
		}
		h = newWordleServer(words, limit)
	default:
		return nil, fmt.Errorf("no built-in server for environment %q: there are %s", name, strings.Join(Names(), ", "))
	}
	return fault.New(h, o.Faults, nil), nil
}

// Server is a running server. Its URL lacks the environment's suffix.
type Server = listen.Server

// Serve starts the named environment's server on addr, such as
// "127.0.0.1:36001", or "127.0.0.1:0" for a free port. It runs until Close or
// until ctx ends; either way Close must be called.
func Serve(ctx context.Context, name, addr string, o Options) (*Server, error) {
	h, err := New(name, o)
	if err != nil {
		return nil, err
	}
	return listen.Serve(ctx, name, addr, h, o.Log)
}
