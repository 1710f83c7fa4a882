package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
)

func TestActionTags(t *testing.T) {
	ok := func(action string) Parsed { return Parsed{Action: action, Text: "Action: " + action, OK: true} }
	final := func(action string) Parsed { p := ok(action); p.Final = true; return p }
	none := func(text string) Parsed { return Parsed{Text: text} }
	tests := []struct {
		name, text string
		want       Parsed
	}{
		// The cases of spec 12.5, with the intended values where upstream is wrong.
		{"action wins over an earlier response", "<response>r</response><action> go </action>", ok("go")},
		{"act, which upstream ignores", "<act>x</act>", ok("x")},
		{"the first of two, over a line end", "<action>a\nb</action><action>c</action>", ok("a\nb")},
		{"case counts", "<Action>x</Action>", none("<Action>x</Action>")},
		{"unclosed", "<action>x", none("<action>x")},
		{"action before act", "<act>x</act><action>y</action>", ok("y")},
		{"an unclosed action does not hide act", "<action>x <act>y</act>", ok("y")},
		{"a line", "Thought: t\nAction: go left\n", ok("go left")},
		{"the first of two lines", "Action: x\nAction: y", ok("x")},
		{"line before response", "<response>r</response>\nAction: x", ok("x")},
		{"response", "so <response> 42 </response>", final("42")},
		{"answer", "<answer>42</answer>", final("42")},
		{"empty tag", "<action></action>", ok("")},
		{"a mark in the tag", "<action>Action: get 1 oak log</action>", ok("get 1 oak log")},
		{"a mark and a line end in the tag", "<act>\nAction:\nget 1 oak log\n</act>", ok("get 1 oak log")},
		{"a mark later in the tag", "<action>say Action: x</action>", ok("say Action: x")},
		{"nothing", "", none("")},
		{"plain text", "go left", none("go left")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, actionTags{}.Parse(tt.text)); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

// TestServerTags checks that a server receives the tags that it defines,
// under every format based on action_tags.
func TestServerTags(t *testing.T) {
	searchqa, err := env.Lookup("searchqa")
	if err != nil {
		t.Fatal(err)
	}
	block := func(text string, final bool) Parsed { return Parsed{Action: text, Text: text, OK: true, Final: final} }
	for _, name := range []string{env.FormatActionTags, env.FormatHistory, env.FormatStaged} {
		f, err := FormatFor(name, searchqa, FormatOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			text string
			want Parsed
		}{
			{"<think>I know.</think><answer>Paris</answer>", block("<answer>Paris</answer>", true)},
			{"<search>capital of France</search>\n<answer>Paris</answer>", block("<search>capital of France</search>", false)},
			{"<answer>Paris</answer>\n<search>capital of France</search>", block("<answer>Paris</answer>", true)},
			{"<search>capital <answer>Paris</answer>", block("<answer>Paris</answer>", true)},
			{"<action><search>capital of France</search></action>", Parsed{Action: "<search>capital of France</search>", Text: "Action: <search>capital of France</search>", OK: true}},
			{"<search>capital of France", Parsed{Text: "<search>capital of France"}},
		} {
			if diff := cmp.Diff(tt.want, f.Parse(tt.text)); diff != "" {
				t.Errorf("%s: Parse(%q) (-want +got):\n%s", name, tt.text, diff)
			}
		}
	}
}

// TestActionTagsThroughTheClientsParsers checks that all clients' parsers extract the action of actionTags.
func TestActionTagsThroughTheClientsParsers(t *testing.T) {
	text := actionTags{}.Parse("I think.\n<action>get 2 oak log</action>").Text
	one, ok := action.ParseOne(text)
	for name, got := range map[string]string{
		"split": action.ParseSplit(text), "one": one, "react": action.ParseReact(text), "craft1": action.ParseCraft1(text),
	} {
		if got != "get 2 oak log" || !ok {
			t.Errorf("parser %s extracts %q from %q", name, got, text)
		}
	}
}

func TestReact(t *testing.T) {
	tests := []struct {
		text, action string
		ok           bool
	}{
		{"Thought:\nI go.\n\nAction:\ngo to desk 1", "go to desk 1", true},
		{"go to desk 1", "", false},
		{"Thought: a\nAction: x\nAction: y", "x", true},
		{"Action:\n", "", true},
		{"action: x", "", false},
		{"", "", false},
	}
	for _, tt := range tests {
		want := Parsed{Action: tt.action, Text: tt.text, OK: tt.ok} // Text is always the full reply
		if diff := cmp.Diff(want, react.Parse(tt.text)); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", tt.text, diff)
		}
	}
}

// builtinFormats are the formats of this package, without formats that tests register.
var builtinFormats = []string{
	env.FormatReact, env.FormatActionTags, env.FormatHistory, env.FormatStaged, env.FormatToolCall, env.FormatFunctionCalling, env.FormatCodeAsAction,
}

// TestPromptsAgreeWithParsers checks that a format's prompt, and every environment's instruction for
// the format, shows an action that the format's parser finds. Upstream's prompts do not (spec 0.2).
func TestPromptsAgreeWithParsers(t *testing.T) {
	for _, name := range Formats.Names() {
		f, err := Formats.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if prompt := f.Prompt(); prompt != "" && !f.Parse(prompt).OK {
			t.Errorf("%s: no action in the prompt %q of the format", name, prompt)
		}
		for _, e := range env.Names() {
			spec, err := env.Lookup(e)
			if err != nil {
				t.Fatal(err)
			}
			text := Instruction(data.Task{}, spec, f, "")
			f, err := FormatFor(name, spec, FormatOptions{})
			if err != nil {
				if name != env.FormatToolCall || spec.ToolCall != nil {
					t.Errorf("%s does not fit %s: %v", name, e, err)
				}
				continue
			}
			if callsFunctions(f) {
				if !slices.Contains(spec.ActionFormats, action.Format(name)) {
					continue
				}
				_, text, _ = strings.Cut(text, "like this:\n") // the reply is the call alone
			}
			if len(spec.Tools) > 0 && !slices.Contains(builtinFormats, name) {
				continue // a registered test format; the instruction may need tools
			}
			if !f.Parse(text).OK {
				t.Errorf("%s in %s: no action in the instruction %q", name, e, text)
			}
		}
	}
}

// noInstruction is a format without instructions in any environment.
type noInstruction struct{ wholeReply }

func (noInstruction) Name() string   { return "unknown" }
func (noInstruction) Prompt() string { return "say x" }

func TestInstruction(t *testing.T) {
	spec := env.Spec{Instruction: func(format string) string { return "own for " + format }}
	recorded := []data.Message{{Role: "user", Content: "recorded\n"}, {Role: "assistant", Content: "OK"}}
	tests := []struct {
		name     string
		task     data.Task
		format   Format
		override string
		want     string
	}{
		{"recorded", data.Task{Env: "textcraft", Conversation: recorded}, react, "file", "recorded"},
		{"recorded for another format", data.Task{Env: "textcraft", Conversation: recorded}, actionTags{}, "", "recorded\n\n" + actionTags{}.Prompt()},
		{"the recorded instruction of maze is incomplete", data.Task{Env: "maze", Conversation: recorded}, react, "", "own for react"},
		{"the recorded instruction of wordle is incomplete", data.Task{Env: "wordle", Conversation: recorded}, react, "file", "file"},
		{"the recorded instruction names no functions", data.Task{Env: "webshop", Conversation: recorded}, functionCalling, "", "own for function_calling"},
		{"nothing recorded", data.Task{Env: "textcraft"}, actionTags{}, "", "own for action_tags"},
		{"a file", data.Task{Env: "textcraft"}, actionTags{}, "file", "file"},
		{"a format that environments do not know", data.Task{Env: "textcraft"}, noInstruction{}, "", "own for unknown\n\nsay x"},
		{"an unknown format and a recorded instruction", data.Task{Env: "textcraft", Conversation: recorded}, noInstruction{}, "", "recorded\n\nsay x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Instruction(tt.task, spec, tt.format, tt.override); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestOpening(t *testing.T) {
	user := func(s string) data.Message { return data.Message{Role: "user", Content: s} }
	tests := []struct {
		instruction, role string
		want              []data.Message
	}{
		{"do", "", []data.Message{user("do\n\nobs")}},
		{"do\n", "user", []data.Message{user("do\n\nobs")}},
		{"", "user", []data.Message{user("obs")}},
		{"do", "system", []data.Message{{Role: "system", Content: "do"}, user("obs")}},
		{"", "system", []data.Message{user("obs")}},
	}
	for _, tt := range tests {
		got, err := Opening(tt.instruction, "obs", tt.role)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%q as %q: %v (-want +got):\n%s", tt.instruction, tt.role, err, diff)
		}
	}
	if _, err := Opening("a", "b", "tool"); err == nil {
		t.Error("the role tool was accepted")
	}
}

func TestOptionsValidate(t *testing.T) {
	if err := testSetup(nil).Options.Validate(); err != nil {
		t.Error(err)
	}
	err := Options{MaxObsTokens: -1, TopP: 2, InstructionRole: "tool"}.Validate()
	for _, want := range []string{"max_turns is 0", "max_new_tokens is 0", "max_context is 0", "max_obs_tokens is -1", "temperature is 0", "top_p is 2", `"tool"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
}

func FuzzFormats(f *testing.F) {
	for _, s := range []string{
		"<action>a</action>", "<act>", "Action:", "Thought: x\nAction: y", "<answer>\xff</answer>", "</action><action>",
		"<action>action_choice: a\nb</action>", "<action>tool: a\nparameters: {}</action>", `<tool_call>{"name":"a","arguments":[]}</tool_call>`,
		"<tool_call>tool: a</tool_call>", "<tool_call>{</tool_call>", "<tool_call>null</tool_call>",
	} {
		f.Add(s)
	}
	formats := map[string]Format{}
	for _, name := range Formats.Names() {
		for _, e := range []string{"maze", "gaia", "weather"} {
			spec, err := env.Lookup(e)
			if err != nil {
				f.Fatal(err)
			}
			if format, err := FormatFor(name, spec, FormatOptions{}); err == nil {
				formats[name+" in "+e] = format
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, format := range formats {
			p := format.Parse(text)
			if p.Action != strings.TrimSpace(p.Action) || !p.OK && (p.Text != text || p.Action != "" || p.Final) {
				t.Errorf("%s: %q gives %+v", name, text, p)
			}
			if !strings.Contains(text, p.Action) {
				t.Errorf("%s: action %q is not part of the reply %q", name, p.Action, text)
			}
		}
	})
}
