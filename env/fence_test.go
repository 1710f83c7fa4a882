package env

import "testing"

// The test vectors of the protocol, section 4.2.
func TestParseSQL(t *testing.T) {
	for text, want := range map[string]string{
		"Thought: x\n\nAction: ```sql\nSELECT 1\n```": "SELECT 1",
		"SELECT 1":                     "SELECT 1",
		"```\nSELECT 1\n```":           "",
		"```sql a``` then ```sql b```": "b",
		"```SQL\nselect 1```":          "",
		// Beyond the table.
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
		"```look()```":                "```look()```", // one line: nothing can be dropped
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
