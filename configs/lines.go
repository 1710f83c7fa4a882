package configs

import (
	"strconv"
	"strings"
)

// lineIndex maps the path of a value ("actor.optim.lr", "env.1.tasks") to its
// line. The TOML decoder has no positions for values inside arrays of tables,
// so this second, much simpler pass finds them. It runs only on text that the
// decoder accepted, hence it checks nothing; on text it does not understand it
// would lose lines, never values.
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

type lineScanner struct {
	src   string
	pos   int
	line  int
	index lineIndex
	count map[string]int // of [[tables]] so far, by path
}

func indexLines(src string) lineIndex {
	s := &lineScanner{src: src, line: 1, index: lineIndex{}, count: map[string]int{}}
	at := ""
	for s.skip(true); s.pos < len(s.src); s.skip(true) {
		if s.src[s.pos] != '[' {
			s.pair(at)
			continue
		}
		array := strings.HasPrefix(s.src[s.pos:], "[[")
		for s.peek() == '[' {
			s.pos++
		}
		at = s.header(array)
	}
	return s.index
}

func (s *lineScanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

// skip passes spaces and, if newlines is set, line ends and comments.
func (s *lineScanner) skip(newlines bool) {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == ' ' || c == '\t' || c == '\r':
		case newlines && c == '\n':
			s.line++
		case newlines && c == '#':
			for s.pos < len(s.src) && s.src[s.pos] != '\n' {
				s.pos++
			}
			continue
		default:
			return
		}
		s.pos++
	}
}

// header reads the name of a [table] or [[array table]] and returns its path,
// with the index of every array table on the way.
func (s *lineScanner) header(array bool) string {
	line := s.line
	names := s.key()
	for s.peek() == ']' {
		s.pos++
	}
	at := ""
	for i, n := range names {
		at = join(at, n)
		if c, ok := s.count[at]; ok && (i < len(names)-1 || !array) {
			at = join(at, strconv.Itoa(c-1))
		}
		if _, ok := s.index[at]; !ok && !(array && i == len(names)-1) {
			s.index[at] = line // a table named only by those inside it
		}
	}
	if array {
		c := s.count[at]
		s.count[at]++
		at = join(at, strconv.Itoa(c))
	}
	s.index[at] = line
	return at
}

// key reads a dotted key up to "=" or "]".
func (s *lineScanner) key() []string {
	var names []string
	for s.skip(false); s.pos < len(s.src); s.skip(false) {
		switch c := s.peek(); c {
		case '.':
			s.pos++
		case '=', ']', '\n':
			return names
		case '"', '\'':
			names = append(names, s.quoted())
		default:
			start := s.pos
			for s.pos < len(s.src) && !strings.ContainsRune(" \t\r\n.=]\"'", rune(s.src[s.pos])) {
				s.pos++
			}
			names = append(names, s.src[start:s.pos])
		}
	}
	return names
}

// pair reads one key = value.
func (s *lineScanner) pair(at string) {
	line := s.line
	path := at
	for _, n := range s.key() {
		path = join(path, n)
		if _, ok := s.index[path]; !ok {
			s.index[path] = line
		}
	}
	s.index[path] = line
	if s.peek() != '=' {
		s.pos++ // not TOML as this scanner knows it: go on behind it
		return
	}
	s.pos++
	s.skip(false)
	s.value(path)
}

// value passes one value and notes the lines inside lists and inline tables.
func (s *lineScanner) value(path string) {
	switch s.peek() {
	case '"', '\'':
		s.quoted()
	case '[':
		s.pos++
		for i := 0; ; i++ {
			if !s.inside(']') {
				return
			}
			at := join(path, strconv.Itoa(i))
			s.index[at] = s.line
			s.value(at)
		}
	case '{':
		s.pos++
		for s.inside('}') {
			s.pair(path)
		}
	default:
		start := s.pos
		for s.pos < len(s.src) && !strings.ContainsRune(",]}#\n", rune(s.src[s.pos])) {
			s.pos++
		}
		if s.pos == start {
			s.pos++ // never stand still, whatever the text
		}
	}
}

// inside passes commas and space and reports whether another element follows;
// it passes the closing bracket if not.
func (s *lineScanner) inside(end byte) bool {
	for {
		s.skip(true)
		switch s.peek() {
		case ',':
			s.pos++
		case end, 0:
			s.pos++
			return false
		default:
			return true
		}
	}
}

// quoted passes a string of any of the four kinds and returns what a key of
// that spelling would be named; escapes are kept as written.
func (s *lineScanner) quoted() string {
	q := s.src[s.pos]
	end := string(q)
	if strings.HasPrefix(s.src[s.pos:], strings.Repeat(end, 3)) {
		end = strings.Repeat(end, 3)
	}
	s.pos += len(end)
	start := s.pos
	for s.pos < len(s.src) {
		if strings.HasPrefix(s.src[s.pos:], end) {
			stop := s.pos
			s.pos += len(end)
			for len(end) == 3 && s.peek() == q { // up to two quotes may precede the closing three
				s.pos++
			}
			return s.src[start:stop]
		}
		switch s.src[s.pos] {
		case '\\':
			if q == '"' {
				s.pos++
				if s.peek() == '\n' {
					s.line++
				}
			}
		case '\n':
			s.line++
		}
		s.pos++
	}
	s.pos = len(s.src)
	return ""
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
