package env

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// spec finds an environment that is known to exist.
func spec(name string) Spec {
	s, err := Lookup(name)
	if err != nil {
		panic(err)
	}
	return s
}

func TestNames(t *testing.T) {
	if diff := cmp.Diff([]string{"maze", "textcraft", "wordle"}, Names()); diff != "" {
		t.Error(diff)
	}
	if _, err := Lookup("mase"); err == nil || !strings.Contains(err.Error(), "maze, textcraft, wordle") {
		t.Errorf("unknown name: %v", err)
	}
}

func TestIndex(t *testing.T) {
	for _, tt := range []struct {
		id, env string
		index   int
		bad     string // part of the error
	}{
		{id: "lmrlgym_maze_13", env: "maze", index: 13},
		{id: "maze_0", env: "maze", index: 0},
		{id: "lmrlgym_wordle_1450", env: "wordle", index: 1450},
		{id: "textcraft_286", env: "textcraft", index: 286},
		{id: "lmrlgym_maze_25", env: "maze", index: 25, bad: "is the goal itself"},
		{id: "maze_26", env: "maze", index: 26, bad: "0 to 24"},
		{id: "textcraft_-1", env: "textcraft", index: -1, bad: "0 or greater"},
		{id: "textcraft_x", env: "textcraft", bad: "not an index"},
		{id: "webshop_1", bad: "no known environment"},
	} {
		t.Run(tt.id, func(t *testing.T) {
			s, index, err := ByTaskID(tt.id)
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) {
					t.Fatalf("error %v, want %q", err, tt.bad)
				}
				return
			}
			if err != nil || s.Name != tt.env || index != tt.index {
				t.Errorf("got %s %d %v", s.Name, index, err)
			}
		})
	}
	maze := spec("maze")
	if _, err := maze.Index("textcraft_1"); err == nil {
		t.Error("maze took a textcraft item")
	}
	for _, name := range Names() {
		var e *IndexError
		if err := spec(name).CheckIndex(-1); !errors.As(err, &e) || e.Index != -1 {
			t.Errorf("%s takes index -1: %v", name, err)
		}
	}
}

func TestSpecs(t *testing.T) {
	for _, name := range Names() {
		s := spec(name)
		if !s.Success(1) || s.Success(0) || s.Success(0.99) || s.Success(-1) {
			t.Errorf("%s: success threshold %v", name, s.SuccessReward)
		}
		react, tags := s.Instruction(FormatReact), s.Instruction(FormatActionTags)
		if !strings.Contains(react, "Thought:\n") || !strings.Contains(react, "\n\nAction:\n") || strings.Contains(react, "<action>") {
			t.Errorf("%s react instruction: %q", name, react)
		}
		if !strings.Contains(tags, "<action>") || !strings.Contains(tags, "</action>") || strings.Contains(tags, "Action:") {
			t.Errorf("%s action_tags instruction: %q", name, tags)
		}
	}
}

func TestRegisterPanics(t *testing.T) {
	for name, s := range map[string]Spec{"maze": spec("maze"), "empty": {}} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			Register(name, s)
		})
	}
}
