package table

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/openmanus/openmanus/internal/plainjson"
)

// maxUnpacked limits the uncompressed size that a parquet file states.
const maxUnpacked = 4 << 30

const parquetMagic = "PAR1"

// readParquet reads OpenManus-RL's rows (protocol 7.1): it converts them to JSON
// and parses them as rows of a JSON file. Missing columns count as null. The result
// others lists the columns that are not read.
func readParquet(ctx context.Context, f io.ReaderAt, size int64, visit func(*Entry) error) (others []string, err error) {
	pf, err := openParquet(f, size)
	if err != nil {
		return nil, err
	}
	defer malformed(&err)
	read, others := recordColumns(pf.Schema())
	columns := func() (names []string) {
		for _, field := range pf.Schema().Fields() {
			names = append(names, field.Name())
		}
		slices.Sort(names)
		return names
	}
	err = eachRow(ctx, pf, func(n int, values parquet.Row) error {
		row, err := reconstruct(pf.Schema(), values)
		if err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		text, err := plainjson.Marshal(selected(row, read))
		if err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		r, err := parseRecord(text)
		if err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		return visit(&Entry{N: n, Record: r, columns: columns})
	})
	return others, err
}

// recordColumns returns the columns of a Record in a schema, each with the fields
// to read if it is a struct, and the paths of the other leaf columns.
func recordColumns(s *parquet.Schema) (read map[string][]string, others []string) {
	read = map[string][]string{}
	for _, path := range s.Columns() {
		column, last := path[0], path[len(path)-1]
		var fields []string
		ok := len(path) == 1
		switch column {
		case "data_source", "ability":
		case "item_id", "id", "index":
			leaf, _ := s.Lookup(path...)
			ok = ok && slices.Contains([]parquet.Kind{parquet.ByteArray, parquet.Int32, parquet.Int64}, leaf.Node.Type().Kind())
		case "conversations", "prompt": // writers name lists and their elements differently
			ok = slices.Contains([]string{"from", "value", "role", "content", "loss"}, last)
		case "reward_model":
			fields = []string{"ground_truth", "style"}
			ok = len(path) > 1 && (path[1] == "ground_truth" || len(path) == 2 && last == "style")
		case "extra_info":
			fields = []string{"conversations", "index", "split"}
			ok = len(path) == 2 && slices.Contains(fields, last)
		default:
			ok = false
		}
		if ok {
			read[column] = fields
		} else {
			others = append(others, strings.Join(path, "."))
		}
	}
	return read, others
}

// selected returns the columns and fields of a row that are listed in the map read.
// Other columns may hold values that JSON lacks, such as NaN.
func selected(row map[string]any, read map[string][]string) map[string]any {
	out := map[string]any{}
	for name, fields := range read {
		out[name] = row[name]
		if group, ok := row[name].(map[string]any); ok && fields != nil {
			kept := map[string]any{}
			for _, field := range fields {
				kept[field] = group[field]
			}
			out[name] = kept
		}
	}
	return out
}

// eachRow visits the rows of a file with their numbers, from 0. A row is valid
// until visit returns.
func eachRow(ctx context.Context, pf *parquet.File, visit func(n int, row parquet.Row) error) (err error) {
	defer malformed(&err)
	rows := parquet.MultiRowGroup(pf.RowGroups()...).Rows()
	defer rows.Close()
	buf := make([]parquet.Row, 64)
	for at := 0; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			if err := visit(at, row); err != nil {
				return err
			}
			at++
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("row %d: %w", at, err)
		case n == 0:
			return fmt.Errorf("row %d: the file returns no more rows", at)
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

// checkFooter verifies the stated length of the footer. The library would allocate a
// buffer of this length before it notices that the file is shorter.
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
