package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
)

// The formats of data files, as people read them.
const (
	ParquetFile = "parquet"
	LinesFile   = "JSON lines"
	ArrayFile   = "JSON array"
	DumpFile    = "dump of episodes"
)

// Source describes a data file that was read to its end.
type Source struct {
	Format     string
	Compressed bool        // with zstd
	Others     []string    // columns of a parquet file that are not read
	Header     dump.Header // of a dump
	Torn       bool        // a dump's torn last line was dropped
}

// Entry is one row of a data file. Record is nil in a dump, Episode elsewhere.
type Entry struct {
	N       int // from 0
	Line    int // from 1; 0 in parquet
	Record  *Record
	Episode *data.Episode

	columns func() []string // names of the row's columns; nil if not known
}

// Where names the entry's place for an error.
func (e *Entry) Where() string {
	if e.Line == 0 {
		return fmt.Sprintf("row %d", e.N)
	}
	return fmt.Sprintf("row %d, line %d", e.N, e.Line)
}

// needIndex returns an error if the row does not tell which task it is.
func (e *Entry) needIndex() error {
	_, err := e.Record.index()
	if !errors.Is(err, errNoIndex) {
		return err
	}
	has := ""
	if e.columns != nil {
		has = " from its columns " + strings.Join(e.columns(), ", ")
	}
	return fmt.Errorf("its task cannot be told%s: give an id (or item_id) that is the task's index or ends in it, such as 3 or maze_3, or a column index", has)
}

// ReadSource reads a data file of any known format, told by its content, and
// hands its rows to visit one by one; no more than a few are in memory. An
// error of visit ends the reading and is returned as it is, others name the
// file and the row.
func ReadSource(ctx context.Context, path string, visit func(*Entry) error) (Source, error) {
	src, err := readSource(ctx, path, func(e *Entry) error {
		if err := visit(e); err != nil {
			return &visitError{err}
		}
		return nil
	})
	var stopped *visitError
	if errors.As(err, &stopped) {
		return src, stopped.err
	}
	if err != nil && src.Format != DumpFile { // whose reader names the file itself
		err = fmt.Errorf("%s: %w", path, err)
	}
	return src, err
}

// visitError keeps what a visitor returned apart from what reading gave.
type visitError struct{ err error }

// Error returns the visitor's words.
func (v *visitError) Error() string { return v.err.Error() }

func readSource(ctx context.Context, path string, visit func(*Entry) error) (Source, error) {
	f, size, err := openData(path)
	if err != nil {
		return Source{}, err
	}
	defer f.Close()
	if r, ok := readerOf(path); ok {
		return readWith(ctx, r, f, visit)
	}
	magic := make([]byte, len(parquetMagic))
	if _, err = f.ReadAt(magic, 0); err != nil && !errors.Is(err, io.EOF) {
		return Source{}, err
	}
	if string(magic) == parquetMagic {
		columns := func() []string { return parquetColumns(f, size) }
		others, err := readParquet(ctx, f, size, func(n int, r *Record) error { return visit(&Entry{N: n, Record: r, columns: columns}) })
		return Source{Format: ParquetFile, Others: others}, err
	}
	text, err := dump.NewText(f)
	if err != nil {
		return Source{}, err
	}
	defer text.Close()
	in := bufio.NewReaderSize(text, 1<<16)
	if isDump(in) {
		return readDumpFile(ctx, path, visit)
	}
	src := Source{Format: LinesFile, Compressed: text.Compressed()}
	array, err := readJSON(ctx, in, func(n, line int, raw []byte, r *Record) error {
		return visit(&Entry{N: n, Line: line, Record: r, columns: func() []string { return columnsOf(raw) }})
	})
	if array {
		src.Format = ArrayFile
	}
	return src, err
}

// isDump reports whether a text's first line is the header of a dump, or of
// one that is torn there.
func isDump(in *bufio.Reader) bool {
	const begin = `{"format":"` + dump.Format + `"`
	text, _ := in.Peek(in.Size())
	if len(text) >= len(begin) && string(text[:len(begin)]) == begin {
		return true
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var h dump.Header
	return json.Unmarshal(line, &h) == nil && h.Format == dump.Format
}

func readDumpFile(ctx context.Context, path string, visit func(*Entry) error) (src Source, err error) {
	src.Format = DumpFile
	r, err := dump.Open(path)
	if err != nil {
		return src, err
	}
	defer r.Close()
	src.Compressed, src.Header = r.Compressed(), r.Header()
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return src, err
		}
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			src.Torn = r.Torn()
			return src, nil
		}
		if err != nil {
			return src, err
		}
		if err := visit(&Entry{N: n, Line: r.Line(), Episode: e}); err != nil {
			return src, err
		}
	}
}

func openData(path string) (*os.File, int64, error) {
	st, err := os.Stat(path) // before opening: a named pipe would wait for a writer
	if err != nil {
		return nil, 0, err
	}
	if !st.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	return f, st.Size(), err
}
