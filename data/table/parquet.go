package table

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// maxUnpacked bounds what a parquet file may say its columns take unpacked.
const maxUnpacked = 4 << 30

const parquetMagic = "PAR1"

// readParquet reads OpenManus-RL rows (protocol 7.1) and hands each to row.
// Columns that are absent count as null; others are not read, but named. Where
// texts names columns, these alone are read.
func readParquet(ctx context.Context, f *os.File, size int64, row func(n int, r *Record) error, texts ...string) (others []string, err error) {
	pf, err := openParquet(f, size)
	if err != nil {
		return nil, err
	}
	defer malformed(&err)
	leaves, others, err := bindLeaves(pf.Schema(), texts...)
	if err != nil {
		return nil, err
	}
	at := 0
	for _, g := range pf.RowGroups() {
		if at, err = readGroup(ctx, g, leaves, at, row); err != nil {
			return nil, err
		}
	}
	return others, nil
}

// malformed turns a panic into an error. The parquet library panics on some
// malformed files. They are input, so here, and only here, that is done.
func malformed(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("malformed parquet file: %v", p)
	}
}

// parquetColumns are the names of a parquet file's top-level columns.
func parquetColumns(f io.ReaderAt, size int64) (names []string) {
	pf, err := openParquet(f, size)
	if err != nil {
		return nil
	}
	for _, field := range pf.Schema().Fields() {
		names = append(names, field.Name())
	}
	slices.Sort(names)
	return names
}

// openParquet opens a file that may not say it is larger than it may be.
func openParquet(f io.ReaderAt, size int64) (pf *parquet.File, err error) {
	defer malformed(&err)
	if err := checkFooter(f, size); err != nil {
		return nil, err
	}
	pf, err = parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("malformed parquet file: %w", err)
	}
	if pf.NumRows() < 0 || pf.NumRows() > maxRows {
		return nil, fmt.Errorf("it says it has %d rows, more than the limit of %d", pf.NumRows(), maxRows)
	}
	var unpacked int64
	for _, g := range pf.Metadata().RowGroups {
		for _, c := range g.Columns {
			n := c.MetaData.TotalUncompressedSize
			if n < 0 || n > maxUnpacked-unpacked {
				return nil, fmt.Errorf("its columns take more than %d bytes unpacked", int64(maxUnpacked))
			}
			unpacked += n
		}
	}
	return pf, nil
}

// checkFooter verifies the footer's length, which the library would allocate
// before it finds that the file is shorter.
func checkFooter(f io.ReaderAt, size int64) error {
	const head, tail = 4, 8 // "PAR1"; length and "PAR1"
	if size < head+tail {
		return errors.New("malformed parquet file: it is cut off")
	}
	var end [tail]byte
	if _, err := f.ReadAt(end[:], size-tail); err != nil {
		return err
	}
	if magic := string(end[4:]); magic != parquetMagic {
		return fmt.Errorf("malformed parquet file: it ends with %q, not with %q (is it cut off?)", magic, parquetMagic)
	}
	if n := int64(binary.LittleEndian.Uint32(end[:])); n > size-head-tail {
		return fmt.Errorf("malformed parquet file: a footer of %d bytes in a file of %d", n, size)
	}
	return nil
}

// readGroup reads one row group, whose first row is row number at of the file,
// and returns the number after its last.
func readGroup(ctx context.Context, g parquet.RowGroup, leaves map[int]leaf, at int, row func(int, *Record) error) (int, error) {
	rows := g.Rows()
	defer rows.Close()
	buf := make([]parquet.Row, 64)
	for {
		if err := ctx.Err(); err != nil {
			return at, err
		}
		n, err := rows.ReadRows(buf)
		for _, values := range buf[:n] {
			var r Record
			values.Range(func(column int, values []parquet.Value) bool {
				if l, ok := leaves[column]; ok {
					l.read(&r, values)
				}
				return true
			})
			if err := row(at, &r); err != nil {
				return at, err
			}
			at++
		}
		switch {
		case errors.Is(err, io.EOF):
			return at, nil
		case err != nil:
			return at, fmt.Errorf("row %d: %w", at, err)
		case n == 0:
			return at, fmt.Errorf("row %d: the file gives no more rows", at)
		}
	}
}
