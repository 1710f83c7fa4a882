package env

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/env/action"
)

// fc writes a reply in the function-calling format.
func fc(name, arguments string) string {
	return `{"thought":"t","function_name":"` + name + `","arguments":` + arguments + `}`
}

const invalid = "\x00invalid"

func actionOf(a string, ok bool) string {
	if !ok {
		return invalid
	}
	return a
}

// TestFunctionCalling checks the examples of protocol sections 4.2 and 4.3, and a case for every other function in
// them.
func TestFunctionCalling(t *testing.T) {
	type vector struct{ text, want string }
	for name, tt := range map[string]struct {
		functions action.Functions
		vectors   []vector
	}{
		"webshop": {webshopFunctions, []vector{
			{fc("click", `{"item":"Buy Now"}`), "click[Buy Now]"},
			{"I buy.\n```json\n" + fc("click", `{"item":"Buy Now"}`) + "\n```\n", "click[Buy Now]"},
			{fc("search", `{"keywords":"red shoe"}`), "search[red shoe]"},
			{fc("search", `{"keywords":"red","page":2}`), "search[red]"},
			{fc("search", `{"item":"red"}`), invalid},
			{fc("search", `{}`), invalid},
			{fc("buy", `{"item":"x"}`), invalid},
			{"click[Buy Now]", invalid},
			{"{}", invalid},
			{"", invalid},
			{"}{", invalid},
			{`{"function_name":"click","arguments":{"item":"x"}}`, invalid}, // without thought
			{`{"thought":null,"function_name":"click","arguments":{"item":"x"}}`, "click[x]"},
			{`{"thought":"t","function_name":7,"arguments":{"item":"x"}}`, invalid},
			{`{"thought":"t","arguments":{"item":"x"}}`, invalid},
			{`{"thought":"t","function_name":"click"}`, invalid},
			{`{"thought":"t","function_name":"click","arguments":null}`, invalid},
			{`{"thought":"t","function_name":"click","arguments":["x"]}`, invalid},
			{`{"Thought":"t","function_name":"click","arguments":{"item":"x"}}`, invalid}, // keys are case-sensitive
			{"{\"thought\":\"two\nlines\tand a tab\",\"function_name\":\"click\",\"arguments\":{\"item\":\"a \\\"b\\\"\"}}", `click[a "b"]`},
			{"{\"thought\":\"\\\n\",\"function_name\":\"click\",\"arguments\":{\"item\":\"x\"}}", invalid}, // an escaped line break
			{fc("click", `{"item":"a{}b"}`), "click[a{}b]"},
			{fc("click", `{"item":["x"]}`), invalid},
			{fc("click", `{"item":{}}`), invalid},
			{fc("click", `{"item":true}`), "click[True]"},
			{fc("click", `{"item":null}`), "click[None]"},
			{fc("click", `{"item":2.50}`), "click[2.5]"},
			{fc("click", `{"item":1e2}`), "click[100.0]"},
			{fc("click", `{"item":1e-7}`), "click[1e-07]"},
			{fc("click", `{"item":1e22}`), "click[1e+22]"},
			{fc("click", `{"item":-0}`), "click[0]"},
			{fc("click", `{"item":-12}`), "click[-12]"},
			{fc("click", `{"item":"x"}`) + fc("click", `{"item":"y"}`), invalid}, // two objects are not a call
		}},
		"alfworld": {alfworldFunctions, []vector{
			{fc("put", `{"obj":"mug 1","recep":"desk 1"}`), "put mug 1 in/on desk 1"},
			{fc("put", `{"recep":"desk 1","obj":"mug 1"}`), "put mug 1 in/on desk 1"},
			{fc("goto", `{"recep":"a","obj":"b"}`), invalid},
			{fc("goto", `{"recep":"desk 1"}`), "go to desk 1"},
			{fc("examine", `{"obj":"lamp"}`), invalid},
			{fc("examine", `{"recep":"desk 1"}`), "examine desk 1"},
			{fc("examine", `{"recep":"desk 1","obj":"lamp 1"}`), "examine desk 1 with lamp 1"},
			{fc("take", `{"recep":"desk 1"}`), invalid}, // the first parameter is missing
			{fc("take", `{"obj":"mug 1"}`), "take mug 1"},
			{fc("take", `{"obj":"mug 1","recep":"desk 1"}`), "take mug 1 from desk 1"},
			{fc("take", `{"obj":"mug 1","place":"desk 1"}`), invalid},
			{fc("take", `{"obj":"mug 1","recep":"desk 1","x":1}`), invalid},
			{fc("toggle", `{"obj":"lamp 1"}`), "toggle lamp 1"},
			{fc("toggle", `{"recep":"lamp 1"}`), invalid},
			{fc("open", `{"recep":"drawer 1"}`), "open drawer 1"},
			{fc("close", `{"recep":"drawer 1"}`), "close drawer 1"},
			{fc("heat", `{"obj":"egg 1","recep":"microwave 1"}`), "heat egg 1 with microwave 1"},
			{fc("cool", `{"obj":"egg 1","recep":"fridge 1"}`), "cool egg 1 with fridge 1"},
			{fc("clean", `{"obj":"egg 1","recep":"sinkbasin 1"}`), "clean egg 1 with sinkbasin 1"},
			{fc("use", `{"obj":"desklamp 1"}`), "use desklamp 1"},
			{fc("inventory", `{}`), "inventory"},
			{fc("look", `{}`), "look"},
			{fc("look", `{"obj":"x"}`), invalid},
			{fc("goto", `{}`), "go to"}, // a call without arguments is the bare command
			{fc("heat", `{}`), "heat"},
			{fc(" look ", `{}`), "look"},
		}},
		"sciworld": {sciworldFunctions, []vector{
			{fc("wait", `{"duration":1}`), "wait1"},
			{fc("wait", `{"duration":"1"}`), "wait1"},
			{fc("wait", `{}`), "wait"},
			{fc("choose", `{"option":0}`), "0"},
			{fc("choose", `{}`), "choose"},
			{fc("dunk", `{"container":"mug","liq":"water"}`), "dunk mug in water"},
			{fc("use", `{"tool":"lighter"}`), "use lighter"},
			{fc("use", `{"tool":"lighter","obj":"candle"}`), "use lighter on candle"},
			{fc("move", `{"obj":"a","container":"b","speed":3}`), "move a to b"},
			{fc("lookin", `{"obj":"box"}`), invalid},
			{fc("read", `{"info":"note"}`), invalid},
			{fc("read", `{"obj":"note"}`), "read note"},
			{fc("eat", `{"food":"apple"}`), "eat apple"},
			{fc("eat", `{"obj":"apple"}`), invalid},
			{fc("open", `{"obj":"door","x":1}`), invalid},
			{fc("open", `{}`), "open"},
			{fc("lookaround", `{}`), "look around"},
			{fc("lookaround", `{"obj":"x"}`), invalid},
			{fc("lookat", `{"obj":"x"}`), "look at x"},
			{fc("lookat", `{}`), "look at"},
			{fc("pickup", `{"obj":"x"}`), "pick up x"},
			{fc("focus", `{"obj":"x"}`), "focus on x"},
			{fc("goto", `{"loc":"hall"}`), "go to hall"},
			{fc("mix", `{"container":"cup"}`), "mix cup"},
			{fc("connect", `{"obj1":"a","obj2":"b"}`), "connect a to b"},
			{fc("pour", `{"liq":"milk","container":"cup"}`), "pour milk into cup"},
			{fc("drop", `{"obj":"x"}`), "drop x"},
			{fc("flush", `{"obj":"toilet"}`), "flush toilet"},
			{fc("activate", `{"obj":"stove"}`), "activate stove"},
			{fc("deactivate", `{"obj":"stove"}`), "deactivate stove"},
			{fc("disconnect", `{"obj":"wire"}`), "disconnect wire"},
			{fc("close", `{"obj":"door"}`), "close door"},
			{fc("examine", `{"obj":"x"}`), "examine x"},
			{fc("task", `{}`), "task"},
			{fc("inventory", `{}`), "inventory"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range tt.vectors {
				if got := actionOf(tt.functions.ParseJSON(v.text)); got != v.want {
					t.Errorf("ParseJSON(%q) = %q, want %q", v.text, got, v.want)
				}
			}
		})
	}
}

func TestCodeAsAction(t *testing.T) {
	type vector struct{ text, want string }
	for name, tt := range map[string]struct {
		functions action.Functions
		vectors   []vector
	}{
		"webshop": {webshopFunctions, []vector{
			{`search("red shoe")`, "search[red shoe]"},
			{"```python\n# I look.\nsearch(\"red shoe\")\n```", "search[red shoe]"},
			{"```\nsearch(keywords='x',)\n```", "search[x]"},
			{"# a\n\n   # b\nclick( # c\n  \"Buy\" \" Now\" # d\n) # e\n# f\n", "click[Buy Now]"},
			{"x=1", invalid},
			{"", invalid},
			{"# only\n", invalid},
			{"click", invalid},
			{"click()", invalid},
			{`click("a", "b")`, invalid},
			{`click("a", item="a")`, invalid},
			{`click(item="a", item="b")`, invalid},
			{`click(thing="a")`, invalid},
			{`click("a"); click("b")`, invalid},
			{"click('a')\nclick('b')", invalid},
			{"# a\n  click('a')", invalid}, // indented
			{"  click('a')", "click[a]"},
			{"Action: click('a')", invalid},
			{"say\n```python\nclick('a')\n```", invalid},
			{"click(click('a'))", invalid},
			{"click('a' + 'b')", invalid},
			{"click(x)", invalid},
			{"click(None)", invalid},
			{"click(['a'])", invalid},
			{"print('a')", invalid},
			{"__import__('os').system('x')", invalid},
			{"click('a').strip()", invalid},
			{"(click('a'))", invalid},
			{`click("it's")`, "click[it's]"},
			{`click('it\'s')`, "click[it's]"},
			{`click("a\tb\x41\u00e9\U0001F600\101\q\\")`, "click[a\tbAé😀A\\q\\]"},
			{`click(r"a\n\"")`, `click[a\n\"]`},
			{"click('''a\n'b''')", "click[a\n'b]"},
			{"click('a\nb')", invalid},
			{"click('a\\\nb')", "click[ab]"},
			{"click('a", invalid},
			{"click('a\\", invalid},
			{`click('\N{DASH}')`, invalid},
			{`click('\xg1')`, invalid},
			{`click('\U00110000')`, invalid},
			{`click(f"{1}")`, invalid},
			{`click(b"a")`, invalid},
			{"click('a\x00')", invalid},
			{"click(item = 'a')", "click[a]"},
			{"click (\t'a')", "click[a]"},
			{"click('a'\r\n)\r\n", "click[a]"},
		}},
		"alfworld": {alfworldFunctions, []vector{
			{`take("mug 1","desk 1")`, "take mug 1 from desk 1"},
			{`take(recep="desk 1", obj="mug 1")`, "take mug 1 from desk 1"},
			{`take("mug 1")`, invalid},
			{`take(obj="mug 1", "desk 1")`, invalid},
			{`goto(recep="a")`, "go to a"},
			{`toggle(recep="lamp 1")`, "toggle lamp 1"},
			{`toggle(obj="lamp 1")`, invalid},
			{`examine("desk 1")`, "examine desk 1"},
			{`examine("desk 1", "lamp 1")`, "examine desk 1 with lamp 1"},
			{`examine("desk 1", "")`, "examine desk 1"},
			{`examine(obj="lamp 1")`, invalid},
			{`inventory()`, "inventory"},
			{`look()`, "look"},
			{`look("x")`, invalid},
			{`goto()`, invalid},
			{`put("a","b","c")`, invalid},
			{`put("{}","b")`, "put {} in/on b"},
		}},
		"sciworld": {sciworldFunctions, []vector{
			{`wait("1")`, "wait1"},
			{`wait(1)`, "wait1"},
			{`wait(1.50)`, "wait1.5"},
			{`wait(-1)`, "wait-1"},
			{`wait(.5)`, "wait0.5"},
			{`wait(5.)`, "wait5.0"},
			{`wait(00)`, "wait0"},
			{`wait(01)`, invalid},
			{`wait(1_0)`, invalid},
			{`wait(1e400)`, "waitinf"},
			{`wait()`, invalid},
			{`use("a","b")`, "use a on b"},
			{`use("a",0)`, "use a"},
			{`use("a")`, "use a"},
			{`choose(2)`, "2"},
			{`dunk("mug", "water")`, "dunk mug in water"},
			{`read("note")`, "read note"},
			{`read(info="note")`, invalid},
			{`lookaround()`, "look around"},
			{`lookin("box")`, invalid},
			{`move("a","b","c")`, invalid},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range tt.vectors {
				if got := actionOf(tt.functions.ParsePython(v.text)); got != v.want {
					t.Errorf("ParsePython(%q) = %q, want %q", v.text, got, v.want)
				}
			}
		})
	}
}

// TestFunctionInstructions checks that every example in an instruction is a valid action.
func TestFunctionInstructions(t *testing.T) {
	for name, want := range map[string]struct {
		functions action.Functions
		action    string
	}{
		"webshop":  {webshopFunctions, "search[red cotton shirt]"},
		"alfworld": {alfworldFunctions, "take mug 1 from desk 1"},
		"sciworld": {sciworldFunctions, "open door to kitchen"},
	} {
		for _, format := range action.CallFormats {
			text := spec(name).Instruction(string(format))
			from := strings.Index(text, "like this:\n") + len("like this:\n")
			a := action.Grammar{Parser: action.ParserG2, Format: format, Functions: want.functions}
			if got := actionOf(a.Parse(text[from:])); got != want.action {
				t.Errorf("%s: the %s instruction shows %q, which is parsed as the action %q", name, format, text[from:], got)
			}
			for _, f := range want.functions {
				if !strings.Contains(text, "\n"+f.Name+"(") || f.Doc == "" {
					t.Errorf("%s: %s is not in the %s instruction", name, f.Name, format)
				}
			}
		}
	}
}

func TestAdapter(t *testing.T) {
	const react, call, code = "Thought: a\nAction: x\nAction: y", `{"thought":"","function_name":"look","arguments":{}}`, "look()"
	for _, tt := range []struct {
		a          action.Grammar
		text, want string
	}{
		{action.Grammar{Parser: action.ParserG1, Format: action.React}, react, "x"},
		{action.Grammar{Parser: action.ParserG2, Format: action.React}, react, "y"},
		{action.Grammar{Parser: action.ParserG2, Format: action.React}, "go", ""},
		{action.Grammar{Parser: action.ParserG2, Format: action.FunctionCalling}, call, "look"},
		{action.Grammar{Parser: action.ParserG2, Format: action.FunctionCalling}, code, invalid},
		{action.Grammar{Parser: action.ParserG2, Format: action.CodeAsAction}, code, "look"},
		{action.Grammar{Parser: action.ParserG2, Format: action.CodeAsAction}, call, invalid},
		{action.Grammar{Parser: action.ParserG2, Format: action.CodeAsAction}, "look()\n</s>", "look"}, // trimEOS also removes the line break
		{action.Grammar{Parser: action.ParserG2, Format: action.CodeAsAction}, "look()</s>", invalid},
	} {
		tt.a.Functions = alfworldFunctions
		if got := actionOf(tt.a.Parse(tt.text)); got != tt.want {
			t.Errorf("%s %s of %q: %q, want %q", tt.a.Parser, tt.a.Format, tt.text, got, tt.want)
		}
	}
}

func FuzzFunctionCalling(f *testing.F) {
	f.Add(fc("take", `{"obj":"mug 1","recep":"desk 1"}`))
	f.Add("{\"thought\":\"a\nb\",\"function_name\":\"wait\",\"arguments\":{\"duration\":1e5}}")
	f.Add(`{"thought":"\`)
	f.Fuzz(func(t *testing.T, s string) {
		for _, fs := range []action.Functions{webshopFunctions, alfworldFunctions, sciworldFunctions} {
			if a, ok := fs.ParseJSON(s); ok && a == "" && !strings.Contains(s, "choose") {
				t.Errorf("ParseJSON(%q) returns an empty action", s)
			}
		}
		if object, _ := action.JSONCall(s); !strings.Contains(s, object) {
			t.Errorf("JSONCall returns %q, which is not a part of %q", object, s)
		}
	})
}

func FuzzCodeAsAction(f *testing.F) {
	for _, s := range []string{`take("mug 1", recep='desk 1')`, "```python\n# a\nwait(1.5)\n```", "f(r'\\'", "f('''", "f(-", "f(a=", "f('\\x4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		code, ok := action.PythonCall(s)
		if !strings.Contains(s, code) {
			t.Errorf("PythonCall returns %q, which is not a part of %q", code, s)
		}
		for _, fs := range []action.Functions{webshopFunctions, alfworldFunctions, sciworldFunctions} {
			if _, is := fs.ParsePython(s); is && !ok {
				t.Errorf("ParsePython accepts %q, but PythonCall does not", s)
			}
		}
	})
}
