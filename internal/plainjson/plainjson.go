// Package plainjson encodes JSON without the escapes of HTML, so that the characters
// < and >, which are frequent in actions and replies, stay readable. It decodes
// numbers without loss.
package plainjson

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Marshal encodes v on one line, without a newline at its end.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Unmarshal decodes text, a single JSON value, into v. Numbers in a value of
// type any become json.Number.
func Unmarshal(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		return errors.New("text after a JSON value")
	}
	return nil
}
