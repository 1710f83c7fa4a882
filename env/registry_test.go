package env

import (
	"errors"
	"slices"
	"strings"
	"testing"
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
	want := []string{
		"academia", "alfworld", "babyai", "gaia", "maze", "movie", "sciworld", "searchqa", "sheet", "sqlgym", "textcraft", "todo",
		"weather", "webarena", "webshop", "wordle",
	}
	for _, name := range want { // beside these there may be environments of users
		if !slices.Contains(Names(), name) {
			t.Errorf("no %s", name)
		}
	}
	if _, err := Lookup("mase"); err == nil || !strings.Contains(err.Error(), "maze, movie") {
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
		{id: "sokoban_1", bad: "no known environment"},
		{id: "webshop_6909", env: "webshop", index: 6909},
		{id: "webshop_6910", env: "webshop", bad: "0 to 6909"},
		{id: "webarena_811", env: "webarena", index: 811},
		{id: "webarena_812", bad: "0 to 811"},
		{id: "alfworld_2619", env: "alfworld", index: 2619},
		{id: "alfworld_2620", bad: "0 to 2619"},
		{id: "sciworld_4638", env: "sciworld", index: 4638},
		{id: "sciworld_4639", bad: "0 to 4638"},
		{id: "babyai_11155", env: "babyai", index: 11155},
		{id: "weather_342", env: "weather", index: 342},
		{id: "weather_343", bad: "0 to 342"},
		{id: "movie_237", env: "movie", index: 237},
		{id: "movie_238", bad: "0 to 237"},
		{id: "academia_19", env: "academia", index: 19},
		{id: "academia_20", bad: "0 to 19"},
		{id: "todo_154", env: "todo", index: 154},
		{id: "todo_155", bad: "0 to 154"},
		{id: "sheet_19", env: "sheet", index: 19},
		{id: "sheet_20", bad: "0 to 19"},
		{id: "sqlgym_10961", env: "sqlgym", index: 10961},
		{id: "sqlgym_10962", bad: "0 to 10961"},
		{id: "searchqa_221327", env: "searchqa", index: 221327},
		{id: "searchqa_221328", bad: "0 to 221327"},
		{id: "gaia_7", env: "gaia", index: 7},
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

// The table of the protocol, section 1.4, and what sections 2.5, 3 and 11 say
// of the servers.
func TestSpecs(t *testing.T) {
	type row struct {
		turns, instances               int
		one, deterministic, cumulative bool
		failure, success               float64 // the worst and best reward on either side of success
		greeting                       string
	}
	lmrl := "This is environment LMRL-Gym."
	want := map[string]row{
		"academia":  {turns: 12, cumulative: true, failure: 0.99, success: 1, greeting: "ok"},
		"alfworld":  {turns: 30, one: true, failure: 0.99, success: 1, greeting: "This is environment AlfWorld."},
		"babyai":    {turns: 20, deterministic: true, cumulative: true, failure: 0, success: 0.1, greeting: "This is environment BabyAI."},
		"gaia":      {turns: 10, failure: 0.8, success: 1},
		"maze":      {turns: 15, deterministic: true, failure: 0.99, success: 1, greeting: lmrl},
		"movie":     {turns: 12, cumulative: true, failure: 0.99, success: 1, greeting: "ok"},
		"sciworld":  {turns: 30, cumulative: true, failure: 99, success: 100, greeting: "This is environment ScienceWorld."},
		"searchqa":  {turns: 30, failure: 0.99, success: 1, greeting: "ok"},
		"sheet":     {turns: 15, instances: 1, cumulative: true, failure: 0.99, success: 1, greeting: "ok"},
		"sqlgym":    {turns: 1, instances: 8, one: true, deterministic: true, failure: 0, success: 1, greeting: "ok"},
		"textcraft": {turns: 20, deterministic: true, failure: 0.99, success: 1, greeting: "This is environment TextCraft."},
		"todo":      {turns: 15, instances: 1, cumulative: true, failure: 0.99, success: 1, greeting: "ok"},
		"weather":   {turns: 10, cumulative: true, failure: 0.99, success: 1, greeting: "ok"},
		"webarena":  {turns: 25, failure: 0, success: 1, greeting: "ok"},
		"webshop":   {turns: 10, instances: 8000, failure: 0.99, success: 1, greeting: "ok"},
		"wordle":    {turns: 8, deterministic: true, failure: 0.99, success: 1, greeting: lmrl},
	}
	for _, name := range Names() {
		s := spec(name)
		w, ok := want[name]
		if !ok { // an environment of a user, which has its own test
			continue
		}
		got := row{s.MaxTurns, s.MaxInstances, s.OneAtATime, s.Deterministic, s.Cumulative, w.failure, w.success, s.Greeting}
		if got != w {
			t.Errorf("%s: got %+v, want %+v", name, got, w)
		}
		if s.Success(w.failure) || !s.Success(w.success) || s.Success(0) || s.Success(-1) || s.Doc == "" {
			t.Errorf("%s: success threshold %v, doc %q", name, s.SuccessReward, s.Doc)
		}
	}
}

// Every instruction shows an action in each format, in that format alone.
func TestInstructions(t *testing.T) {
	for _, name := range Names() {
		s := spec(name)
		for _, format := range []string{FormatReact, FormatActionTags, FormatFunctionCalling, FormatCodeAsAction, FormatHistory, FormatStaged, FormatToolCall} {
			text := s.Instruction(format)
			has := map[string]bool{
				FormatReact:           strings.Contains(text, "Thought:") && strings.Contains(text, "\n\nAction:"),
				FormatActionTags:      strings.Contains(text, "<action>") && strings.Contains(text, "</action>"),
				FormatFunctionCalling: strings.Contains(text, "\"function_name\": "),
				FormatCodeAsAction:    strings.Contains(text, "```python\n"),
				FormatToolCall:        strings.Contains(text, "<tool_call>{") && !strings.Contains(text, "Action Input:"),
			}
			shown := format
			if ActionFormat(format).Calls() && !slices.Contains(s.ActionFormats, ActionFormat(format)) {
				shown = FormatReact
			}
			switch {
			case format == FormatHistory || format == FormatStaged:
				shown = FormatActionTags
			case format == FormatToolCall && s.ToolCall == nil:
				shown = FormatReact
			}
			for f, there := range has {
				if there != (f == shown) {
					t.Errorf("%s under %s: is it in format %s? %v\n%s", name, format, f, there, text)
				}
			}
		}
	}
}

func TestFamilies(t *testing.T) {
	for _, tt := range []struct {
		env    string
		index  int
		family string
	}{
		{"sciworld", 0, "boil"}, {"sciworld", 29, "boil"}, {"sciworld", 30, "melt"}, {"sciworld", 659, "use-thermometer"},
		{"sciworld", 1095, "measure-melting-point-known-substance"}, {"sciworld", 1096, "measure-melting-point-unknown-substance"},
		{"sciworld", 1871, "test-conductivity"}, {"sciworld", 2335, "test-conductivity"}, {"sciworld", 4168, "chemistry-mix-paint-secondary-color"},
		{"sciworld", 4628, "identify-life-stages-1"}, {"sciworld", 4629, "identify-life-stages-2"}, {"sciworld", 4638, "identify-life-stages-2"},
		{"babyai", 0, "GoToRedBallGrey"}, {"babyai", 3, "GoToObjS6"}, {"babyai", 39, "BossLevelNoUnlock"}, {"babyai", 41, "GoToRedBall"},
		{"babyai", 9, "GoToDoor"}, {"babyai", 23, "Unlock"}, {"babyai", 31, "KeyCorridorS6R3"}, {"babyai", 37, "MiniBossLevel"},
		{"searchqa", 3609, "nq"}, {"searchqa", 3610, "triviaqa"}, {"searchqa", 14922, "triviaqa"}, {"searchqa", 29189, "popqa"},
		{"searchqa", 36594, "hotpotqa"}, {"searchqa", 49170, "2wikimultihopqa"}, {"searchqa", 51587, "musique"}, {"searchqa", 51712, "bamboogle"},
		{"searchqa", 51713, "nq"}, {"searchqa", 130880, "nq"}, {"searchqa", 130881, "hotpotqa"}, {"searchqa", 221327, "hotpotqa"},
		{"sqlgym", 9427, "train"}, {"sqlgym", 9428, "dev"}, {"alfworld", 2419, "train"}, {"alfworld", 2420, "test"},
	} {
		if got := spec(tt.env).Family(tt.index); got != tt.family {
			t.Errorf("%s %d is of family %q, want %q", tt.env, tt.index, got, tt.family)
		}
	}
	if len(babyaiLevels) != 40 {
		t.Errorf("%d levels of babyai", len(babyaiLevels))
	}
	for _, name := range []string{"textcraft", "maze", "webshop", "gaia"} {
		if spec(name).Family != nil {
			t.Errorf("%s tells families", name)
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
