package chat

import "fmt"

// Error is a fault of a template or of rendering it.
type Error struct {
	Line int // in the template, 1 is the first
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("chat template line %d: %s", e.Line, e.Msg) }

// kind is the kind of a token.
type kind int

const (
	tokEOF      kind = iota
	tokText          // output verbatim
	tokVarOpen       // {{
	tokVarClose      // }}
	tokTagOpen       // {%
	tokTagClose      // %}
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind kind
	text string // decoded, for strings
	line int
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokVarClose:
		return "'}}'"
	case tokTagClose:
		return "'%}'"
	}
	return fmt.Sprintf("%q", t.text)
}
