package data

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readJSON reads AgentTraj-like records, one a line or in one array, and hands
// each to row.
func readJSON(ctx context.Context, in io.Reader, row func(n int, r *sourceRow) error) error {
	b := bufio.NewReaderSize(in, 1<<16)
	first, err := skipSpace(b)
	if errors.Is(err, io.EOF) {
		return nil // no rows; the caller says so
	}
	if err != nil {
		return err
	}
	dec := json.NewDecoder(b)
	dec.UseNumber()
	array := first == '['
	if array {
		if _, err := dec.Token(); err != nil {
			return err
		}
	}
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if array && !dec.More() {
			if _, err := dec.Token(); err != nil {
				return fmt.Errorf("row %d: %w", n, noEOF(err))
			}
			if _, err := skipSpace(bufio.NewReader(io.MultiReader(dec.Buffered(), b))); !errors.Is(err, io.EOF) {
				return errors.New("something follows the array")
			}
			return nil
		}
		var j jsonRow
		err := dec.Decode(&j)
		if !array && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", n, noEOF(err))
		}
		r, err := j.source()
		if err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		if err := row(n, &r); err != nil {
			return err
		}
	}
}

// noEOF makes the end of the text inside a value look like what it is.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// skipSpace skips white space and a byte order mark, and returns the next byte
// without consuming it.
func skipSpace(b *bufio.Reader) (byte, error) {
	if bom, _ := b.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = b.Discard(3)
	}
	for {
		c, err := b.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c, b.UnreadByte()
		}
	}
}
