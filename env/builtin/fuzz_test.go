package builtin

import "testing"

func FuzzParseBook(f *testing.F) {
	for _, s := range []string{"", "1 a = 1 b", "4 oak planks [planks] = 1 oak log\n1 x = 2 [planks]", "1 a [g] = 1 b\n1 b = 1 [g]", "# x\n1 a = 1 [b]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBook(s)
		if err != nil || b.Len() > 50 {
			return
		}
		for i := range b.Len() {
			if b.Depth(i) < 1 || b.Goal(i) == "" || len(b.Commands(i)) == 0 {
				t.Errorf("%q: task %d is %q at depth %d", s, i, b.Goal(i), b.Depth(i))
			}
		}
	})
}

func FuzzParseMinecraft(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"type":"minecraft:crafting_shapeless","ingredients":[{"item":"a"}],"result":"b"}`,
		`{"type":"minecraft:crafting_shaped","pattern":["#"],"key":{"#":{"tag":"t"}},"result":{"item":"b","count":2}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, ok, err := parseMinecraft(text)
		if ok && err == nil && (r.item == "" || r.count < 1 || len(r.in) == 0) {
			t.Errorf("%s: %+v", text, r)
		}
	})
}

// FuzzTextcraftAction checks that actions neither panic nor make a count negative.
func FuzzTextcraftAction(f *testing.F) {
	for _, s := range []string{"", "get 3 oak log", "craft 4 oak planks using 1 oak log", "craft using ", "craft  using ,", "inventory", "get 0 sand", "craft x using 0 sand, 1 sand"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, action string) {
		c := crafter{book: OwnBook(), goal: OwnBook().goal(0), held: map[string]int64{}}
		c.act("get 5 oak log")
		c.act("get 0 sand")
		text, _ := c.act(action)
		again, _ := c.act(action)
		if text == "" || again == "" {
			t.Errorf("%q: empty reply", action)
		}
		if len(c.names) != len(c.held) {
			t.Errorf("%q: %d names, %d counts", action, len(c.names), len(c.held))
		}
		for id, n := range c.held {
			if n < 0 {
				t.Errorf("%q: %d of %s", action, n, id)
			}
		}
	})
}

// FuzzParseVocabulary checks that a game can be played with every valid vocabulary.
func FuzzParseVocabulary(f *testing.F) {
	for _, s := range []string{"", "panic solar", "panic\r\n\r\nsolar", "PANIC", "p\xffnic", "pänic"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVocabulary(s)
		if err != nil || len(v.words) > 20 {
			return
		}
		g := newGuessing(v, 1)
		for _, w := range v.words {
			if text, _, done := g.act(w); text == wordleInvalid || len(g.left) == 0 {
				t.Errorf("%q of %q: %q, %d words left", w, s, text, len(g.left))
			} else if done {
				return
			}
		}
	})
}
