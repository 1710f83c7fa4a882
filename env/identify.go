package env

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// OtherEnvError is the error of a server that belongs to another environment than the
// configured one.
type OtherEnvError struct {
	Env, Server string
	Other       string // the environment that the server belongs to
}

func (e *OtherEnvError) Error() string {
	return fmt.Sprintf("environment %s: the server at %s is a server of %s", e.Env, e.Server, e.Other)
}

// GreetedBy returns the environments whose servers have this greeting. It returns nil
// for "ok", the greeting of servers of many environments.
func GreetedBy(words string) []string {
	words = strings.Trim(strings.TrimSpace(words), `"`)
	var names []string
	Specs.Each(func(_ registry.Entry, s Spec) {
		if s.Greeting == words && words != "" && words != anyGreeting {
			names = append(names, s.Name)
		}
	})
	return names
}

// anyGreeting is a greeting that identifies no environment.
const anyGreeting = "ok"

// The tool servers have the same greeting and the same endpoints, and differ only in
// their tools, which the tool check_valid_actions lists. The sheet server does not
// have this tool. It rejects the call with a message that lists its tools, but only
// after 40 s, because it retries a failing action three times, with pauses of 10 s.

// ListTools is the action to which a tool server replies with the names of its
// tools.
const ListTools = "Action: check_valid_actions with Action Input: {}"

var (
	listedTool     = regexp.MustCompile(`'(\w+)'`)
	documentedTool = regexp.MustCompile(`(\w+)\(`)
)

// ToolsIn returns the names of the tools in the reply to ListTools, or nil if the reply lists no tools.
func ToolsIn(observation string) []string {
	_, list, ok := strings.Cut(observation, "[")
	if !ok {
		return nil
	}
	var names []string
	for _, m := range listedTool.FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	return names
}

// documentedTools returns the names in lines such as
// "get_movie_cast(movie_id), get_movie_crew(movie_id): about a film".
func documentedTools(lines []string) []string {
	var names []string
	for _, line := range lines {
		head, _, _ := strings.Cut(line, "): ")
		for _, m := range documentedTool.FindAllStringSubmatch(head, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// ToolOwner returns the environment that a list of tools belongs to. It considers only
// tools that a single environment has, and returns the environment with the most of
// these tools, or "" if the list has no such tool.
func ToolOwner(tools []string) string {
	owners := map[string][]string{}
	Specs.Each(func(_ registry.Entry, s Spec) {
		for _, tool := range s.Tools {
			owners[tool] = append(owners[tool], s.Name)
		}
	})
	owned := map[string]int{}
	best := ""
	for _, tool := range tools {
		if of := owners[tool]; len(of) == 1 {
			owned[of[0]]++
			if owned[of[0]] > owned[best] {
				best = of[0]
			}
		}
	}
	return best
}

// Identify compares a tool server's tools with those of the environments. If
// server.ownCall is set, Identify sends this call first, and a server that accepts the call passes.
// A server that lists no tools passes too.
func (in *instance) Identify(ctx context.Context) error {
	if in.spec.Tools == nil {
		return nil
	}
	if call := in.server.ownCall; call != "" {
		r, err := in.Step(ctx, call)
		if err != nil || !strings.Contains(r.Observation, "ERROR") {
			return err
		}
	}
	r, err := in.Step(ctx, ListTools)
	if err != nil {
		return err
	}
	if owner := ToolOwner(ToolsIn(r.Observation)); owner != "" && owner != in.spec.Name {
		return &OtherEnvError{Env: in.spec.Name, Server: in.base, Other: owner}
	}
	return nil
}
