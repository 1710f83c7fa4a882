package configs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIndexLines(t *testing.T) {
	const text = `# a comment with = and [brackets]
top = 1
a.b = "x # no comment" # a comment
[s]
k = """
k2 = 3
"""
list = [
  "x", # one
  [1,
   2],
]
'quoted key' = 'c:\'
[[e]]
n = 1

[[e]]
n = { p = 1, q.r = [ { z = 2 } ] }
[e.sub]
m = '''
]''''
`
	want := lineIndex{
		"top": 2, "a": 3, "a.b": 3, "s": 4, "s.k": 5, "s.list": 8, "s.quoted key": 13, "e.0": 14, "e.0.n": 15, "e.1": 17, "e.1.n": 18,
		"e.1.sub": 19, "e.1.sub.m": 20,
	}
	got := indexLines(text)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := got.of("s.list.7.x"); n != 8 {
		t.Errorf("a path inside the value of line 8 has line %d", n)
	}
	if n := got.of("nowhere"); n != 0 {
		t.Errorf("an unknown path has line %d, want 0", n)
	}
}
