package env

import (
	"context"
	"fmt"
	"strings"
)

// OtherEnvError says that a server is of another environment than its address
// is configured for.
type OtherEnvError struct {
	Env, Server string
	Other       string // the environment it is of
}

// Error says which is which.
func (e *OtherEnvError) Error() string {
	return fmt.Sprintf("environment %s: the server at %s is one of %s", e.Env, e.Server, e.Other)
}

// Identifier is a Client that can tell whether its server is of the client's
// environment, before the first reset.
type Identifier interface {
	// Identify returns an OtherEnvError if the server is of another environment,
	// or the error of a failed call.
	Identify(ctx context.Context) error
}

// GreetedBy returns the environments whose servers have this greeting, nil for
// "ok", which servers of many environments answer.
func GreetedBy(words string) []string {
	words = strings.Trim(strings.TrimSpace(words), `"`)
	var names []string
	for _, name := range Names() {
		if s, err := Lookup(name); err == nil && s.Greeting == words && words != "" && words != anyGreeting {
			names = append(names, name)
		}
	}
	return names
}

// anyGreeting is a greeting that identifies no environment.
const anyGreeting = "ok"
