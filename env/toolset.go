package env

import (
	"context"
	"regexp"
	"strings"
)

// The tool servers have the same greeting and the same HTTP: their tools alone
// tell them apart. check_valid_actions lists them. The sheet server has no such
// tool, and lists the ones it has when it refuses, which takes it 40 s: it makes
// an action that fails four times, with pauses of 10 s.

// ListTools is the action that a tool server answers with the names of its tools.
const ListTools = "Action: check_valid_actions with Action Input: {}"

var (
	listedTool     = regexp.MustCompile(`'(\w+)'`)
	documentedTool = regexp.MustCompile(`(\w+)\(`)
)

// ToolsIn returns the names in the answer to ListTools, nil if it lists none.
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

// documentedTools returns the names out of lines such as
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

// ToolOwner returns the environment whose own tools, those that no other
// environment has, are the most numerous in a list; "" if there are none.
func ToolOwner(tools []string) string {
	owners := map[string][]string{}
	for _, name := range Names() {
		s, err := Lookup(name)
		if err != nil {
			continue
		}
		for _, tool := range s.Tools {
			owners[tool] = append(owners[tool], name)
		}
	}
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

// Identify asks for the tools, first for one that its own server answers and
// no other knows where there is one. A server that lists none stays unknown.
func (t *tool) Identify(ctx context.Context) error {
	if t.ownCall != "" {
		r, err := t.Step(ctx, t.ownCall)
		if err != nil || !strings.Contains(r.Observation, "ERROR") {
			return err
		}
	}
	r, err := t.Step(ctx, ListTools)
	if err != nil {
		return err
	}
	if owner := ToolOwner(ToolsIn(r.Observation)); owner != "" && owner != t.name {
		return &OtherEnvError{Env: t.name, Server: t.base, Other: owner}
	}
	return nil
}
