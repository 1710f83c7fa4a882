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
	"path/filepath"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/data/registry"
)

// The formats of data files, as users see them.
const (
	ParquetFile = "parquet"
	LinesFile   = "JSON lines"
	ArrayFile   = "JSON array"
	DumpFile    = "dump of episodes"
)

// Source describes a data file after reading it.
type Source struct {
	Format     string
	Compressed bool        // compressed with zstd
	Others     []string    // columns of a parquet file that are not read
	Header     dump.Header // header of a dump
	Torn       bool        // an incomplete last line of a dump was dropped
}

// Entry is one row of a data file. Record is nil in a dump; Episode is nil elsewhere.
type Entry struct {
	N       int // number of the row, from 0
	Line    int // number of its first line, from 1; 0 in parquet
	Record  *Record
	Episode *data.Episode

	columns func() []string // names of the row's columns; nil if unknown
}

// Where returns the entry's position for an error.
func (e *Entry) Where() string {
	if e.Line == 0 {
		return fmt.Sprintf("row %d", e.N)
	}
	return fmt.Sprintf("row %d, line %d", e.N, e.Line)
}

// needIndex returns an error if the row has no task index.
func (e *Entry) needIndex() error {
	_, err := e.Record.index()
	if !errors.Is(err, errNoIndex) {
		return err
	}
	has := ""
	if e.columns != nil {
		has = " in its columns " + strings.Join(e.columns(), ", ")
	}
	return fmt.Errorf("it has no task index%s: give an id (or item_id) that is the index or ends in it, such as 3 or maze_3, or a column index", has)
}

// ReadSource reads a data file of any known format and passes its rows to visit
// one by one, with only a few in memory. An error of visit ends the reading and is
// returned unchanged. Other errors name the file and the row.
func ReadSource(ctx context.Context, path string, visit func(*Entry) error) (Source, error) {
	var stopped error
	src, err := readSource(ctx, path, func(e *Entry) error {
		stopped = visit(e)
		return stopped
	})
	if stopped != nil {
		return src, stopped
	}
	if err != nil && src.Format != DumpFile { // errors of dumps already name the file
		err = fmt.Errorf("%s: %w", path, err)
	}
	return src, err
}

func readSource(ctx context.Context, path string, visit func(*Entry) error) (Source, error) {
	f, size, err := openData(path)
	if err != nil {
		return Source{}, err
	}
	defer f.Close()
	if r, err := Readers.Lookup(filepath.Ext(strings.TrimSuffix(path, ".zst"))); err == nil {
		return readWith(ctx, r, f, visit)
	}
	if is, err := isParquet(f); err != nil {
		return Source{}, err
	} else if is {
		others, err := readParquet(ctx, f, size, visit)
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
	array, err := readJSON(ctx, in, visit)
	if array {
		src.Format = ArrayFile
	}
	return src, err
}

// isDump reports whether the first line of a text is the header of a dump, or the
// beginning of such a header.
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

// Reader reads a file format that is recognized by the file's extension; the
// built-in formats are recognized by their content. Files compressed with zstd
// are decompressed before Read.
type Reader struct {
	Format string // shown to users
	// Read calls the function row for every record, in order, with the line where the
	// record begins, from 1, or 0 if the format has no lines. It returns an error of
	// this function unchanged, and keeps at most one record in memory.
	Read func(ctx context.Context, in *bufio.Reader, row func(line int, r *Record) error) error
}

// Readers holds the readers by extension, with the dot.
var Readers = registry.New[Reader]("file ending")

// Endings returns the endings of the names of task files.
func Endings() []string { return append([]string{".parquet", ".jsonl", ".json"}, Readers.Names()...) }

func readWith(ctx context.Context, r Reader, f *os.File, visit func(*Entry) error) (src Source, err error) {
	text, err := dump.NewText(f)
	if err != nil {
		return src, err
	}
	defer text.Close()
	src = Source{Format: r.Format, Compressed: text.Compressed()}
	n := 0
	err = r.Read(ctx, bufio.NewReader(text), func(line int, rec *Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := visit(&Entry{N: n, Line: line, Record: rec}); err != nil {
			return err
		}
		n++
		return nil
	})
	if err != nil {
		err = fmt.Errorf("row %d: %w", n, err)
	}
	return src, err
}
