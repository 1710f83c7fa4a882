package hydra

import (
	"fmt"
	"strings"
)

// piece is a part of a shell word: text, or something that stands for text.
type piece struct {
	text   string
	expand bool // text is what stands between ${ and }, or after $
	run    bool // text is a command between $( and ), or between backticks
	quoted bool
}

// token is a word of a script, or an operator.
type token struct {
	op     string // "" for a word
	word   []piece
	joined bool // nothing stands between it and the token before
	line   int
}

// lexer cuts a script into tokens, the way of a POSIX shell as far as start
// scripts need it.
type lexer struct {
	src  string
	pos  int
	line int
	out  []token
	here []string // delimiters of here-documents that begin on this line
}

func lex(src string) ([]token, error) {
	l := &lexer{src: src, line: 1}
	for l.pos < len(l.src) {
		if err := l.next(); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.line, err)
		}
	}
	return l.out, nil
}

func (l *lexer) rest() string { return l.src[l.pos:] }

func (l *lexer) next() error {
	start := l.pos
	l.blanks()
	joined := l.pos == start && l.pos > 0
	if l.pos == len(l.src) {
		return nil
	}
	switch c := l.src[l.pos]; c {
	case '\n':
		l.pos++
		l.op("\n", joined)
		l.line++
		l.skipHere()
	case '#':
		l.comment()
	case ';', '|', '(', ')':
		l.pos++
		l.op(string(c), joined)
	case '&':
		l.pos++
		if strings.HasPrefix(l.rest(), ">") { // &>file
			l.redirect(joined)
			return nil
		}
		l.op("&", joined)
	case '<', '>':
		l.redirect(joined)
	default:
		w, err := l.word()
		if err != nil {
			return err
		}
		l.out = append(l.out, token{word: w, joined: joined, line: l.line})
	}
	return nil
}

func (l *lexer) op(s string, joined bool) {
	l.out = append(l.out, token{op: s, joined: joined, line: l.line})
}

// blanks skips what separates words, lines that are continued among it. Start
// scripts are published with blanks or a comment behind the backslash, where a
// shell would end the command; what was meant is taken.
func (l *lexer) blanks() {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == ' ' || c == '\t' || c == '\r':
			l.pos++
		case c == '\\':
			n := continued(l.rest())
			if n == 0 {
				return
			}
			l.pos += n
			l.line++
		default:
			return
		}
	}
}

// continued is the length of a backslash that ends a line, with all up to the
// next one; 0 where it escapes something.
func continued(s string) int {
	line, _, ok := strings.Cut(s, "\n")
	if !ok {
		return 0
	}
	after := strings.TrimLeft(line[1:], " \t\r")
	if after == "" || after[0] == '#' && len(after) < len(line)-1 {
		return len(line) + 1
	}
	return 0
}

func (l *lexer) comment() {
	n := strings.IndexByte(l.rest(), '\n')
	if n < 0 {
		n = len(l.rest())
	}
	l.pos += n
}

// redirect takes < and > with what they lead to; a here-document is skipped
// when its line ends.
func (l *lexer) redirect(joined bool) {
	op := l.rest()[:len(l.rest())-len(strings.TrimLeft(l.rest(), "<>&|-"))]
	l.pos += len(op)
	l.op(">", joined)
	if !strings.HasPrefix(op, "<<") || strings.HasPrefix(op, "<<<") {
		return
	}
	end := strings.TrimLeft(l.rest(), " \t")
	if n := strings.IndexAny(end, " \t\n;|&)"); n >= 0 {
		end = end[:n]
	}
	l.here = append(l.here, strings.Trim(end, `'"\`))
}

func (l *lexer) skipHere() {
	for _, end := range l.here {
		for l.pos < len(l.src) {
			line, _, _ := strings.Cut(l.rest(), "\n")
			l.pos = min(l.pos+len(line)+1, len(l.src))
			l.line++
			if strings.TrimLeft(line, "\t") == end {
				break
			}
		}
	}
	l.here = nil
}

func (l *lexer) word() ([]piece, error) {
	var w []piece
	var b strings.Builder
	flush := func(quoted bool) {
		if b.Len() > 0 || quoted {
			w = append(w, piece{text: b.String(), quoted: quoted})
			b.Reset()
		}
	}
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; c {
		case ' ', '\t', '\r', '\n', ';', '|', '&', '(', ')', '<', '>':
			flush(false)
			return w, nil
		case '\\':
			if n := continued(l.rest()); n > 0 {
				flush(false)
				return w, nil
			}
			l.pos++
			if l.pos < len(l.src) {
				b.WriteByte(l.src[l.pos])
				l.pos++
			}
		case '\'':
			end := strings.IndexByte(l.src[l.pos+1:], '\'')
			if end < 0 {
				return nil, fmt.Errorf("a ' has no other")
			}
			flush(false)
			text := l.src[l.pos+1 : l.pos+1+end]
			l.line += strings.Count(text, "\n")
			w = append(w, piece{text: text, quoted: true})
			l.pos += end + 2
		case '"':
			flush(false)
			l.pos++
			inner, err := l.double()
			if err != nil {
				return nil, err
			}
			w = append(w, inner...)
		case '$', '`':
			flush(false)
			p, err := l.dollar(false)
			if err != nil {
				return nil, err
			}
			w = append(w, p)
		default:
			b.WriteByte(c)
			l.pos++
		}
	}
	flush(false)
	return w, nil
}

// double reads up to the closing double quote.
func (l *lexer) double() ([]piece, error) {
	w := []piece{{quoted: true}}
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			w = append(w, piece{text: b.String(), quoted: true})
			b.Reset()
		}
	}
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; c {
		case '"':
			l.pos++
			flush()
			return w, nil
		case '\\':
			if l.pos += 2; l.pos > len(l.src) {
				return nil, fmt.Errorf("a \" has no other")
			}
			switch n := l.src[l.pos-1]; n {
			case '\n':
				l.line++
			case '"', '\\', '$', '`':
				b.WriteByte(n)
			default:
				b.WriteByte('\\')
				b.WriteByte(n)
			}
		case '$', '`':
			flush()
			p, err := l.dollar(true)
			if err != nil {
				return nil, err
			}
			w = append(w, p)
		default:
			if c == '\n' {
				l.line++
			}
			b.WriteByte(c)
			l.pos++
		}
	}
	return nil, fmt.Errorf("a \" has no other")
}

// dollar reads an expansion.
func (l *lexer) dollar(quoted bool) (piece, error) {
	s := l.rest()
	switch {
	case s[0] == '`':
		end := strings.IndexByte(s[1:], '`')
		if end < 0 {
			return piece{}, fmt.Errorf("a ` has no other")
		}
		l.pos += end + 2
		return piece{text: s[1 : 1+end], run: true, quoted: quoted}, nil
	case strings.HasPrefix(s, "$("):
		end := closing(s[1:], '(', ')', false)
		if end < 0 {
			return piece{}, fmt.Errorf("a $( is not closed")
		}
		l.pos += end + 2
		return piece{text: s[2 : 1+end], run: true, quoted: quoted}, nil
	case strings.HasPrefix(s, "${"):
		end := closing(s[1:], '{', '}', quoted)
		if end < 0 {
			return piece{}, fmt.Errorf("a ${ is not closed")
		}
		l.pos += end + 2
		return piece{text: s[2 : 1+end], expand: true, quoted: quoted}, nil
	}
	n := nameLength(s[1:])
	if n == 0 && len(s) > 1 && strings.IndexByte("@*#?$!-0123456789", s[1]) >= 0 {
		n = 1
	}
	if n == 0 {
		l.pos++
		return piece{text: "$", quoted: quoted}, nil
	}
	l.pos += 1 + n
	return piece{text: s[1 : 1+n], expand: true, quoted: quoted}, nil
}

// closing is the place of the bracket that closes the one s begins with, or -1.
// Between the double quotes of plain, a ' is a letter.
func closing(s string, open, end byte, plain bool) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '\'' && !plain:
			if n := strings.IndexByte(s[i+1:], '\''); n >= 0 {
				i += n + 1
			}
		case c == '"':
			n := closingQuote(s[i+1:])
			if n < 0 {
				return -1
			}
			i += n + 1
		case c == open:
			depth++
		case c == end:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// closingQuote is the place of the " that ends the text s begins with, or -1.
// What is expanded inside has quotes of its own.
func closingQuote(s string) int {
	for i := 0; i < len(s); i++ {
		n := 0
		switch {
		case s[i] == '"':
			return i
		case s[i] == '\\':
			n = 1
		case s[i] == '`':
			n = strings.IndexByte(s[i+1:], '`') + 1
		case strings.HasPrefix(s[i:], "$("):
			n = closing(s[i+1:], '(', ')', false) + 1
		case strings.HasPrefix(s[i:], "${"):
			n = closing(s[i+1:], '{', '}', true) + 1
		default:
			continue
		}
		if n == 0 {
			return -1
		}
		i += n
	}
	return -1
}

// nameLength is the length of the variable's name that s begins with.
func nameLength(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n
}
