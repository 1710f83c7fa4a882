package dump

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// MaxLine limits the length of a line in bytes, and so the memory for reading a
// file of lines.
const MaxLine = 256 << 20

// LineReader reads a file of lines that may be compressed with zstd. Such files only
// grow at their end, so a process that dies leaves at most one incomplete line: a
// last line without a newline, or in a compressed file everything after the last line
// that can be decompressed. The reader drops this line, and Torn reports the loss.
type LineReader struct {
	f    io.Closer // may be nil
	text *Text
	in   *bufio.Reader
	buf  []byte
	n    int // complete lines read
	torn bool
}

// OpenLines opens a file of lines, plain or compressed.
func OpenLines(path string) (*LineReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := NewLineReader(f)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.f = f
	return r, nil
}

// NewLineReader reads lines, plain or compressed, from in. Close does not close in.
func NewLineReader(in io.Reader) (*LineReader, error) {
	text, err := NewText(in)
	if err != nil {
		return nil, err
	}
	return &LineReader{text: text, in: bufio.NewReaderSize(text, 1<<16)}, nil
}

// Next returns the next complete line with its newline, valid until the next call.
// The error after the last line is io.EOF.
func (r *LineReader) Next() ([]byte, error) {
	r.buf = r.buf[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if len(r.buf)+len(part) > MaxLine {
			return nil, fmt.Errorf("line %d is longer than %d bytes", r.n+1, MaxLine)
		}
		r.buf = append(r.buf, part...)
		switch {
		case err == nil:
			r.n++
			return r.buf, nil
		case errors.Is(err, io.ErrUnexpectedEOF) && r.text.Compressed():
			r.torn = true // the last frame is incomplete
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			r.torn = r.torn || len(r.buf) > 0
			return nil, io.EOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("after line %d: %w", r.n, err)
		}
	}
}

// Line returns the number of the last line that Next returned, from 1.
func (r *LineReader) Line() int { return r.n }

// Torn reports, after io.EOF, whether an incomplete last line was dropped.
func (r *LineReader) Torn() bool { return r.torn }

// Compressed reports whether the file is compressed.
func (r *LineReader) Compressed() bool { return r.text.Compressed() }

// Close closes the file.
func (r *LineReader) Close() error {
	r.text.Close()
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}

// scan passes the complete lines of a file to visit. It returns the reader, which
// is closed, and the offset after the last complete line of a plain file.
func scan(f *os.File, visit func(line []byte) error) (r *LineReader, end int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if r, err = NewLineReader(io.NewSectionReader(f, 0, st.Size())); err != nil {
		return nil, 0, err
	}
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r, end, nil
		}
		if err == nil {
			end += int64(len(line))
			err = visit(line)
		}
		if err != nil {
			return r, end, err
		}
	}
}
