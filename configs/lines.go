package configs

import (
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// lineIndex maps the path of a value ("actor.optim.lr", "env.1.tasks") to its
// line. The TOML decoder reports no positions of values inside arrays of
// tables; a second parser finds them.
type lineIndex map[string]int

// of returns the line of path, or of the nearest table around it.
func (l lineIndex) of(path string) int {
	for {
		if n, ok := l[path]; ok {
			return n
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			return 0
		}
		path = path[:i]
	}
}

// lineScanner fills a lineIndex.
type lineScanner struct {
	ends  []int // offsets of line ends; the parser's own positions take time linear in the text
	index lineIndex
	count map[string]int // of [[tables]] so far, by path
}

// indexLines returns the lines of all values in a text that the decoder
// accepted. It stops at a syntax error.
func indexLines(src string) lineIndex {
	s := &lineScanner{index: lineIndex{}, count: map[string]int{}}
	for i := range len(src) {
		if src[i] == '\n' {
			s.ends = append(s.ends, i)
		}
	}
	var p unstable.Parser
	p.Reset([]byte(src))
	at := ""
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			at = s.header(e)
		case unstable.KeyValue:
			s.pair(at, e)
		}
	}
	return s.index
}

func (s *lineScanner) line(n *unstable.Node) int {
	return 1 + sort.SearchInts(s.ends, int(n.Raw.Offset))
}

// header returns the path of a [table] or [[array table]], with the index of
// every array table on the way.
func (s *lineScanner) header(e *unstable.Node) string {
	at, line := "", 0
	for it := e.Key(); it.Next(); {
		line = s.line(it.Node())
		at = join(at, string(it.Node().Data))
		last := it.IsLast()
		if last && e.Kind == unstable.ArrayTable {
			s.count[at]++
		}
		if n, ok := s.count[at]; ok {
			at = join(at, strconv.Itoa(n-1))
		}
		if _, ok := s.index[at]; !ok || last { // a table may be named only by those inside it
			s.index[at] = line
		}
	}
	return at
}

// pair indexes one key = value.
func (s *lineScanner) pair(path string, e *unstable.Node) {
	for it := e.Key(); it.Next(); {
		path = join(path, string(it.Node().Data))
		if _, ok := s.index[path]; !ok || it.IsLast() {
			s.index[path] = s.line(it.Node())
		}
	}
	s.value(path, e.Value())
}

// value indexes the elements of lists and inline tables.
func (s *lineScanner) value(path string, v *unstable.Node) {
	i := 0
	for it := v.Children(); it.Next(); {
		switch n := it.Node(); {
		case n.Kind == unstable.Comment:
		case v.Kind == unstable.InlineTable:
			s.pair(path, n)
		case v.Kind == unstable.Array:
			at := join(path, strconv.Itoa(i))
			i++
			first := n
			for first.Kind == unstable.Array && first.Child() != nil { // a list has no position of its own
				first = first.Child()
			}
			if first.Kind != unstable.Array {
				s.index[at] = s.line(first)
			}
			s.value(at, n)
		}
	}
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
