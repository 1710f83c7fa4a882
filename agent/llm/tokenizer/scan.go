package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// vocabJSON and mergesJSON decode the two large parts of a tokenizer.json, a few
// hundred thousand short strings, without encoding/json: the strings share one
// copy of the text.
type (
	vocabJSON  map[string]int32
	mergesJSON [][2]string
)

// scanner reads JSON that encoding/json has validated.
type scanner struct {
	s string
	i int
}

// next skips white space and returns the next byte without consuming it.
func (c *scanner) next() byte {
	for {
		switch b := c.s[c.i]; b {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return b
		}
	}
}

// skip consumes b if it is next.
func (c *scanner) skip(b byte) bool {
	if c.next() != b {
		return false
	}
	c.i++
	return true
}

func (c *scanner) str() (string, error) {
	if c.next() != '"' {
		return "", errors.New("not a string")
	}
	start := c.i
	escaped := false
	for c.i++; c.s[c.i] != '"'; c.i++ {
		if c.s[c.i] == '\\' {
			escaped = true
			c.i++
		}
	}
	c.i++
	if !escaped {
		return c.s[start+1 : c.i-1], nil
	}
	var out string
	err := json.Unmarshal([]byte(c.s[start:c.i]), &out)
	return out, err
}

// UnmarshalJSON reads an object of token ids.
func (v *vocabJSON) UnmarshalJSON(data []byte) error {
	c := &scanner{s: string(data)}
	if !c.skip('{') {
		return errors.New("vocab is not an object of ids")
	}
	*v = make(vocabJSON, len(data)/16)
	for !c.skip('}') {
		c.skip(',')
		token, err := c.str()
		if err != nil {
			return fmt.Errorf("vocab: %w", err)
		}
		c.skip(':')
		c.next()
		n := strings.IndexAny(c.s[c.i:], ",} \t\n\r")
		id, err := strconv.ParseInt(c.s[c.i:c.i+n], 10, 64)
		if err != nil {
			return fmt.Errorf("vocab: the id of token %q is not an integer", token)
		}
		if id < 0 || id >= maxID {
			return fmt.Errorf("vocab: token %q has id %d, outside 0 to %d", token, id, maxID-1)
		}
		(*v)[token] = int32(id)
		c.i += n
	}
	return nil
}

// UnmarshalJSON reads merges in either form, "a b" or ["a", "b"].
func (m *mergesJSON) UnmarshalJSON(data []byte) error {
	c := &scanner{s: string(data)}
	if !c.skip('[') {
		return errors.New("merges are not a list")
	}
	*m = make(mergesJSON, 0, len(data)/16)
	for !c.skip(']') {
		c.skip(',')
		one, err := c.merge()
		if err != nil {
			return fmt.Errorf("merges[%d]: %w", len(*m), err)
		}
		*m = append(*m, one)
	}
	return nil
}

func (c *scanner) merge() (out [2]string, err error) {
	if c.next() != '[' {
		line, err := c.str()
		if err != nil {
			return out, errors.New("neither a string nor a pair of strings")
		}
		left, right, ok := strings.Cut(line, " ")
		if !ok || strings.Contains(right, " ") {
			return out, fmt.Errorf("%q is not two tokens with one space between", line)
		}
		return [2]string{left, right}, nil
	}
	c.i++
	for i := range out {
		if i > 0 && !c.skip(',') {
			return out, errors.New("a pair of fewer than two tokens")
		}
		if out[i], err = c.str(); err != nil {
			return out, errors.New("neither a string nor a pair of strings")
		}
	}
	if !c.skip(']') {
		return out, errors.New("a pair of more than two tokens")
	}
	return out, nil
}
