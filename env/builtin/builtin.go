package builtin

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
)

// DefaultInstances is how many instances a server holds at most.
const DefaultInstances = 1 << 16

// Options configures a server. The zero value is usable.
type Options struct {
	Recipes   *Book   // textcraft's; nil for the project's own
	Faults    *Faults // nil for none
	Instances int     // limit, DefaultInstances if 0
	Log       *slog.Logger
}

// Names lists the environments there are servers for.
func Names() []string { return []string{"maze", "textcraft"} }

// New makes a server of the named environment as a handler. Its endpoints
// hang where the original's do, so maze's are under /maze.
func New(name string, o Options) (http.Handler, error) {
	limit := o.Instances
	if limit <= 0 {
		limit = DefaultInstances
	}
	var h http.Handler
	switch name {
	case "maze":
		if o.Recipes != nil {
			return nil, fmt.Errorf("built-in server maze takes no recipes: they are for textcraft")
		}
		h = newMazeServer(limit)
	case "textcraft":
		book := o.Recipes
		if book == nil {
			book = OwnBook()
		}
		h = newTextcraftServer(book, limit)
	default:
		return nil, fmt.Errorf("no built-in server for environment %q: there are %s", name, strings.Join(Names(), " and "))
	}
	return WithFaults(h, o.Faults), nil
}
