package table

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/parquet-go/parquet-go"

	"github.com/openmanus/openmanus/data/dump"
)

// Limits of a data file. A file beyond them is a mistake or an attack.
const (
	maxFileBytes = 2 << 30
	maxTaskBytes = 4 << 30 // size of the tasks in memory
	maxRows      = 1 << 22
)

// errEnough is returned by a visitor to stop reading without an error.
var errEnough = errors.New("enough rows")

// openData opens a regular file and returns its size. Its errors do not name the file, because the callers do.
func openData(path string) (*os.File, int64, error) {
	st, err := os.Stat(path) // check before opening: opening a named pipe would block
	if err != nil {
		return nil, 0, withoutPath(err)
	}
	if st.IsDir() {
		return nil, 0, errors.New("a folder, not a regular file")
	}
	if !st.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	return f, st.Size(), withoutPath(err)
}

// withoutPath removes the operation and the path from an error of the file system.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

func isParquet(f io.ReaderAt) (bool, error) {
	magic := make([]byte, len(parquetMagic))
	if _, err := f.ReadAt(magic, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return string(magic) == parquetMagic, nil
}

// readRows reads a file of rows with arbitrary columns: onParquet receives a
// parquet file, onObject the text of each JSON object with its number, from 0,
// and the line where it begins, from 1.
func readRows(ctx context.Context, path string, onParquet func(*parquet.File) error, onObject func(n, line int, raw []byte) error) (err error) {
	f, size, err := openData(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if size > maxFileBytes {
		return errTooLarge(size)
	}
	if is, err := isParquet(f); err != nil {
		return err
	} else if is {
		pf, err := openParquet(f, size)
		if err != nil {
			return err
		}
		return onParquet(pf)
	}
	text, err := dump.NewText(f)
	if err != nil {
		return err
	}
	defer text.Close()
	_, err = eachObject(ctx, bufio.NewReaderSize(text, 1<<16), onObject)
	return err
}

func errTooLarge(size int64) error {
	return fmt.Errorf("%d bytes are more than the limit of %d: split the file", size, int64(maxFileBytes))
}

// eachObject visits the JSON objects of a text, which follow one another or form
// an array, with their numbers from 0 and their first lines from 1.
func eachObject(ctx context.Context, in *bufio.Reader, visit func(n, line int, raw []byte) error) (array bool, err error) {
	o, err := newObjects(in)
	if err != nil {
		return false, err
	}
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return o.array, err
		}
		raw, line, err := o.next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return o.array, nil
		}
		if err != nil {
			return o.array, fmt.Errorf("row %d, line %d: %w", n, line, err)
		}
		if err := visit(n, line, raw); err != nil {
			return o.array, err
		}
	}
}
