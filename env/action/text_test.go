package action

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestParsers checks the test vectors of the protocol, section 4.2.
func TestParsers(t *testing.T) {
	const refused = "\x00several actions"
	tests := []struct{ text, split, craft1, one, react string }{
		{"Thought:\nI go.\n\nAction:\ngo to desk 1", "go to desk 1", "go to desk 1", "go to desk 1", "go to desk 1"},
		{"go to desk 1", "go to desk 1", "go to desk 1", "", ""},
		{"Thought: a\nAction: x\nAction: y", "x", "y", refused, "y"},
		{"Action:\n", "", "", "", ""},
		{"", "", "", "", ""},
		{"Action: get 1 oak_log!!", "get 1 oak_log!!", "get 1 oaklog", "get 1 oaklog", "get 1 oak_log!!"},
		{"Action: a Action: b", "a", "b", "a Action b", "b"},
		{"Action:\nget 2 x\nmore", "get 2 x\nmore", "get 2 xmore", "get 2 x", "get 2 x\nmore"},
		{"Action: open door</s>", "open doo", "open doors", "open doors", "open doo"},
		{"Action: get 1 x Instruction: z", "get 1 x Instruction: z", "get 1 x", "get 1 x Instruction z", "get 1 x Instruction: z"},
		{"I will search[red shoes]", "I will search[red shoes]", "I will searchred shoes", "", "I will search[red shoes]"},
		{"action: x", "action: x", "action x", "", ""},
		{"Thought:\nuse Action: now\n\nAction:\nclick[Buy Now]", "now", "clickBuy Now", refused, "click[Buy Now]"},
		// These vectors are from the text of section 4.2.
		{"</s>", "", "s", "", ""},
		{"x</s>", "", "xs", "", ""},
		{"Ab é</s>", "Ab", "Ab s", "", ""},
		{"Action:\n\n \tget 1 x", "get 1 x", "get 1 x", "get 1 x", "get 1 x"},
		{"Action: \nAction: y", "", "y", "Action y", "y"},
		{"Action: a  -  b", "a  -  b", "a b", "a b", "a  -  b"},
		{"click[x]\n", "click[x]", "clickx", "", "click[x]"},
		{"Action:\x1c a \x1f", "a", "a", "a", "a"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			check := func(name, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
			check("P-SPLIT", ParseSplit(tt.text), tt.split)
			check("P-CRAFT1", ParseCraft1(tt.text), tt.craft1)
			check("P-REACT", ParseReact(tt.text), tt.react)
			one, ok := ParseOne(tt.text)
			if !ok {
				one = refused
			}
			check("P-ONE", one, tt.one)
		})
	}
}

func FuzzParsers(f *testing.F) {
	for _, s := range []string{"", "Action: a", "Action:Action:", "x</s>", "Action: é</s>", "Instruction:\nAction: b", "\xff</s>", "Action:\x85 q", "click[</s>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		one, ok := ParseOne(s)
		if !ok && strings.Count(s, actionMark) < 2 {
			t.Errorf("ParseOne(%q) found several actions", s)
		}
		for _, p := range []string{one, ParseCraft1(s)} {
			if p != plain(p) {
				t.Errorf("got action %q of %q, which contains characters that plain deletes", p, s)
			}
		}
		split := ParseSplit(s)
		if split != strip(split) || strings.Contains(split, actionMark) {
			t.Errorf("ParseSplit(%q) = %q", s, split)
		}
		react := ParseReact(s)
		if react != strip(react) {
			t.Errorf("ParseReact(%q) = %q", s, react)
		}
		if utf8.ValidString(s) && !(utf8.ValidString(split) && utf8.ValidString(react)) {
			t.Errorf("the action of %q is cut inside a character", s)
		}
	})
}

// TestParseSQL checks the test vectors of the protocol, section 4.2.
func TestParseSQL(t *testing.T) {
	for text, want := range map[string]string{
		"Thought: x\n\nAction: ```sql\nSELECT 1\n```": "SELECT 1",
		"SELECT 1":                     "SELECT 1",
		"```\nSELECT 1\n```":           "",
		"```sql a``` then ```sql b```": "b",
		"```SQL\nselect 1```":          "",
		// These vectors are not in the protocol.
		"":                         "",
		"```sql\nSELECT 1":         "SELECT 1",
		"```sql\n```":              "",
		"x ```sql a``` ```SQL b``": "a",
		"  SELECT 2;\n":            "SELECT 2;",
	} {
		if got := ParseSQL(text); got != want {
			t.Errorf("ParseSQL(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestParseFence(t *testing.T) {
	for text, want := range map[string]bool{
		"next: ```click [12]```": true,
		"``````":                 true,
		"```click [12]":          false,
		"click [12]":             false,
		"":                       false,
		"`````":                  false,
		"```a\nb```":             true,
	} {
		if action, ok := ParseFence(text); ok != want || action != text {
			t.Errorf("ParseFence(%q) = %q, %v", text, action, ok)
		}
	}
}

func TestUncode(t *testing.T) {
	for text, want := range map[string]string{
		"```python\nlook()\n```":      "look()",
		" \n```\na\nb\n```\n":         "a\nb",
		"look()":                      "look()",
		"```look()```":                "```look()```", // the fence of a single line is kept
		"look()\n```":                 "look()",
		"```python\nlook()":           "look()",
		"say\n```python\nlook()\n```": "say\n```python\nlook()",
		"":                            "",
	} {
		if got := uncode(text); got != want {
			t.Errorf("uncode(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzFences(f *testing.F) {
	for _, s := range []string{"", "```sql a```", "```", "``````", "```py\nlook()\n```", "x\n```"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if q := ParseSQL(s); q != strip(q) {
			t.Errorf("ParseSQL(%q) = %q", s, q)
		}
		if c := uncode(s); len(c) > len(s) {
			t.Errorf("uncode(%q) = %q", s, c)
		}
	})
}
