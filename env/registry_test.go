package env

import (
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/env/action"
)

// spec returns the registered environment called name.
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
	for _, name := range want { // users may have added other environments
		if !slices.Contains(Names(), name) {
			t.Errorf("no %s", name)
		}
	}
	if _, err := Lookup("mase"); err == nil || !strings.Contains(err.Error(), "maze, movie") {
		t.Errorf("unknown name: %v", err)
	}
}

func TestCheckIndex(t *testing.T) {
	for _, tt := range []struct {
		env   string
		index int
		bad   string // part of the error; "" if the index is a task
	}{
		{"maze", 13, ""},
		{"maze", 0, ""},
		{"wordle", 1450, ""},
		{"textcraft", 286, ""},
		{"maze", 25, "is the goal itself"},
		{"maze", 26, "0 to 24"},
		{"textcraft", -1, "0 or greater"},
		{"webshop", 6909, ""},
		{"webshop", 6910, "0 to 6909"},
		{"webarena", 811, ""},
		{"webarena", 812, "0 to 811"},
		{"alfworld", 2619, ""},
		{"alfworld", 2620, "0 to 2619"},
		{"sciworld", 4638, ""},
		{"sciworld", 4639, "0 to 4638"},
		{"babyai", 11155, ""},
		{"weather", 342, ""},
		{"weather", 343, "0 to 342"},
		{"movie", 237, ""},
		{"movie", 238, "0 to 237"},
		{"academia", 19, ""},
		{"academia", 20, "0 to 19"},
		{"todo", 154, ""},
		{"todo", 155, "0 to 154"},
		{"sheet", 19, ""},
		{"sheet", 20, "0 to 19"},
		{"sqlgym", 10961, ""},
		{"sqlgym", 10962, "0 to 10961"},
		{"searchqa", 221327, ""},
		{"searchqa", 221328, "0 to 221327"},
		{"gaia", 7, ""},
	} {
		err := spec(tt.env).CheckIndex(tt.index)
		if (err == nil) != (tt.bad == "") || err != nil && !strings.Contains(err.Error(), tt.bad) {
			t.Errorf("%s %d: error %v, want %q", tt.env, tt.index, err, tt.bad)
		}
	}
	for _, name := range Names() {
		if err := spec(name).CheckIndex(-1); err == nil || !strings.Contains(err.Error(), "no task -1") {
			t.Errorf("%s accepts index -1: %v", name, err)
		}
	}
}

// TestSpecs checks the values of protocol section 1.4, and of sections 2.5, 3 and 11.
func TestSpecs(t *testing.T) {
	type row struct {
		turns, instances               int
		one, deterministic, cumulative bool
		failure, success               float64 // the highest reward of a failure, the lowest of a success
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
		if !ok { // an environment that a user added
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

// TestInstructions checks that every instruction shows an action in the format of the prompt, and in no other format.
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
			if action.Format(format).Calls() && !slices.Contains(s.ActionFormats, action.Format(format)) {
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
					t.Errorf("%s under %s shows an action in format %s: %v\n%s", name, format, f, there, text)
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
			t.Errorf("%s reports families", name)
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

// TestTools checks that Spec.Tools has the names that the servers list.
func TestTools(t *testing.T) {
	if got, want := spec("todo").Tools, []string{
		"get_user_current_date", "get_user_current_location", "get_projects", "update_project", "get_tasks", "get_task_description",
		"get_task_duration", "complete_task", "update_task", "delete_task", "check_valid_actions", "finish",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := len(spec("weather").Tools); n != 19 {
		t.Errorf("%d tools of weather: %q", n, spec("weather").Tools)
	}
}
