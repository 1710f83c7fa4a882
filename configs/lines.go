package configs

import (
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// lineIndex maps the path of a value ("actor.optim.lr", "env.1.tasks") to its
// line. The TOML decoder reports no positions of values inside arrays of tables,
// so a second parser finds the lines. A lineIndex has no entries for values inside
// lists and inline tables: they have the line of the whole list or table.
type lineIndex map[string]int

// The method of returns the line of path, or the line of the nearest table around path.
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

// indexLines returns the lines of the tables and keys in a text that the decoder
// accepted. It stops at a syntax error.
func indexLines(src string) lineIndex {
	var ends []int // offsets of line ends; a position from the parser would take time linear in the text
	for i := range len(src) {
		if src[i] == '\n' {
			ends = append(ends, i)
		}
	}
	index := lineIndex{}
	count := map[string]int{} // number of [[tables]] so far, by path
	// path returns the path of a table or key. The parameter at is the path of the
	// enclosing table. The path has an index after every array table.
	path := func(at string, e *unstable.Node) string {
		for it := e.Key(); it.Next(); {
			at = join(at, string(it.Node().Data))
			last := it.IsLast()
			if last && e.Kind == unstable.ArrayTable {
				count[at]++
			}
			if n, ok := count[at]; ok {
				at = join(at, strconv.Itoa(n-1))
			}
			if _, ok := index[at]; !ok || last { // a table without a header has the line of its first key
				index[at] = 1 + sort.SearchInts(ends, int(it.Node().Raw.Offset))
			}
		}
		return at
	}
	var p unstable.Parser
	p.Reset([]byte(src))
	table := ""
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = path("", e)
		case unstable.KeyValue:
			path(table, e)
		}
	}
	return index
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
