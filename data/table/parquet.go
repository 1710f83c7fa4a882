package table

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// maxUnpacked limits the uncompressed size that a parquet file states.
const maxUnpacked = 4 << 30

const parquetMagic = "PAR1"

// readParquet reads OpenManus-RL's rows (protocol 7.1). Missing columns count as
// null; others lists the columns that are not read.
func readParquet(ctx context.Context, f io.ReaderAt, size int64, row func(n int, r *Record) error) (others []string, err error) {
	pf, err := openParquet(f, size)
	if err != nil {
		return nil, err
	}
	defer malformed(&err)
	leaves, others, err := bindLeaves(pf.Schema())
	if err != nil {
		return nil, err
	}
	err = eachRow(ctx, pf, func(n int, values parquet.Row) error {
		var r Record
		values.Range(func(column int, values []parquet.Value) bool {
			if l, ok := leaves[column]; ok {
				l.read(&r, values)
			}
			return true
		})
		return row(n, &r)
	})
	return others, err
}

// eachRow visits the rows of a file with their numbers, from 0. A row is valid
// until visit returns.
func eachRow(ctx context.Context, pf *parquet.File, visit func(n int, row parquet.Row) error) (err error) {
	defer malformed(&err)
	at := 0
	for _, g := range pf.RowGroups() {
		if at, err = readGroup(ctx, g, at, visit); err != nil {
			return err
		}
	}
	return nil
}

// readGroup visits the rows of a row group, the first of which is row at of the
// file. It returns the number after the last.
func readGroup(ctx context.Context, g parquet.RowGroup, at int, visit func(int, parquet.Row) error) (int, error) {
	rows := g.Rows()
	defer rows.Close()
	buf := make([]parquet.Row, 64)
	for {
		if err := ctx.Err(); err != nil {
			return at, err
		}
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			if err := visit(at, row); err != nil {
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
			return at, fmt.Errorf("row %d: the file returns no more rows", at)
		}
	}
}

// reconstruct returns a row as a JSON-like value.
func reconstruct(schema *parquet.Schema, row parquet.Row) (m map[string]any, err error) {
	defer malformed(&err)
	var v any
	if err := schema.Reconstruct(&v, row); err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it is a %T", v)
	}
	return m, nil
}

// malformed turns a panic into an error. The parquet library panics on some
// malformed files, and files are untrusted input.
func malformed(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("malformed parquet file: %v", p)
	}
}

// parquetColumns lists the top-level columns of a parquet file.
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

// openParquet opens a parquet file whose stated size is within the limits.
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
		return nil, fmt.Errorf("it states %d rows, more than the limit of %d", pf.NumRows(), maxRows)
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

// checkFooter verifies the length of the footer. The library would allocate it
// before it notices that the file is shorter.
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
