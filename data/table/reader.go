package table

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/data/registry"
)

// Reader reads a file format that is known by the end of the file's name; the
// formats of the field are told by their content instead. The file may be
// compressed with zstd: what Read gets is not.
type Reader struct {
	Format string // for people
	// Read hands the records to row in order, each with the line where it
	// begins, from 1, or 0 where there are no lines. An error of row ends it and
	// is returned as it is. It must not keep more than a record in memory.
	Read func(ctx context.Context, in *bufio.Reader, row func(line int, r *Record) error) error
}

// Readers holds the readers by ending, the dot included.
var Readers = registry.New[Reader]("file ending")

// readerOf finds the reader of a file's name, "rows.tsv" or "rows.tsv.zst".
func readerOf(path string) (Reader, bool) {
	r, err := Readers.Lookup(filepath.Ext(strings.TrimSuffix(path, ".zst")))
	return r, err == nil
}

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
	var stopped *visitError
	if err != nil && !errors.As(err, &stopped) && ctx.Err() == nil {
		err = fmt.Errorf("row %d: %w", n, err)
	}
	return src, err
}
