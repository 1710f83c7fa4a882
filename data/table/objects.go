package table

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/openmanus/openmanus/data/dump"
)

// objects splits a text into its top-level JSON objects, which follow one
// another (JSON lines) or form an array. It keeps one object in memory.
type objects struct {
	in    *bufio.Reader
	array bool
	line  int // number of the line with the next byte, from 1
	n     int // objects returned
	buf   []byte
}

// newObjects reads the beginning of a text. An empty text has no objects.
func newObjects(in *bufio.Reader) (*objects, error) {
	o := &objects{in: in, line: 1}
	if bom, _ := in.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	c, err := o.skipSpace()
	switch {
	case errors.Is(err, io.EOF):
		return o, nil
	case err != nil:
		return nil, cutOff(err)
	case c == '[':
		o.array = true
	case c == '{':
		return o, in.UnreadByte()
	default:
		begin, _ := in.Peek(20)
		return nil, fmt.Errorf("line %d: it begins with %q, which is no known format: give parquet, JSON lines, a JSON array or a dump of episodes",
			o.line, append([]byte{c}, begin...))
	}
	return o, nil
}

// skipSpace consumes white space and the next byte, which it returns.
func (o *objects) skipSpace() (byte, error) {
	for {
		c, err := o.in.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n':
			o.line++
		case ' ', '\t', '\r':
		default:
			return c, nil
		}
	}
}

// next returns the next object, valid until the next call, and the line where it
// begins. The error after the last object is io.EOF.
func (o *objects) next() (raw []byte, line int, err error) {
	c, err := o.skipSpace()
	if o.array && err == nil {
		switch {
		case c == ']':
			return nil, o.line, o.end()
		case o.n > 0 && c != ',':
			return nil, o.line, fmt.Errorf("%q in place of a comma between two rows", c)
		case o.n > 0:
			c, err = o.skipSpace()
		}
	}
	if errors.Is(err, io.EOF) && !o.array {
		return nil, o.line, io.EOF
	}
	if err != nil {
		return nil, o.line, cutOff(err)
	}
	if c != '{' {
		return nil, o.line, fmt.Errorf("%q in place of a row, which is an object in braces", c)
	}
	line = o.line
	raw, err = o.object()
	if err == nil {
		o.n++
	}
	return raw, line, err
}

// object reads the rest of an object, after its opening brace.
func (o *objects) object() ([]byte, error) {
	o.buf = append(o.buf[:0], '{')
	inString, escaped := false, false
	for depth := 1; depth > 0; {
		if _, err := o.in.Peek(1); err != nil {
			return nil, cutOff(err)
		}
		part, _ := o.in.Peek(o.in.Buffered())
		n := 0
		for ; n < len(part) && depth > 0; n++ {
			switch c := part[n]; {
			case escaped:
				escaped = false
			case inString:
				escaped, inString = c == '\\', c != '"'
			case c == '"':
				inString = true
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				depth--
			}
		}
		if len(o.buf)+n > dump.MaxLine {
			return nil, fmt.Errorf("it is longer than %d bytes", dump.MaxLine)
		}
		o.buf = append(o.buf, part[:n]...)
		o.line += bytes.Count(part[:n], []byte("\n"))
		_, _ = o.in.Discard(n) // n bytes are buffered
	}
	return o.buf, nil
}

// end returns an error if something follows the array.
func (o *objects) end() error {
	c, err := o.skipSpace()
	if err == nil {
		return fmt.Errorf("%q after the array: the file must end there", c)
	}
	return err
}

// cutOff replaces io.EOF by an error, because the file ends inside a row.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the file ends inside it (%w): get a complete copy", io.ErrUnexpectedEOF)
	}
	return err
}
