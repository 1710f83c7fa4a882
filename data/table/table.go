package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/openmanus/openmanus/data/dump"
)

// Table is a data file whose columns may be any, for tools that add columns to
// it: rows are kept as they are, and written back without a loss.
type Table struct {
	path   string
	schema *parquet.Schema   // nil: JSON
	rows   []parquet.Row     // of a parquet file
	lines  []json.RawMessage // objects of a JSON file
	added  []addedColumn
}

// addedColumn is a list of strings, numbers or integers for every row.
type addedColumn struct {
	name   string
	node   parquet.Node
	values [][]any
}

// Read reads a parquet file, or JSON objects, one a line or in an array.
func Read(ctx context.Context, path string) (*Table, error) {
	t := &Table{path: path}
	f, size, err := openData(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxFileBytes {
		return nil, fmt.Errorf("%s: %d bytes are more than the limit of %d: split the file", path, size, int64(maxFileBytes))
	}
	magic := make([]byte, len(parquetMagic))
	if _, err := f.ReadAt(magic, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(magic) == parquetMagic {
		err = t.readParquet(ctx, f, size)
	} else {
		err = t.readJSON(ctx, f)
	}
	if err == nil && t.Len() == 0 {
		err = errors.New("it has no rows")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (t *Table) readParquet(ctx context.Context, f io.ReaderAt, size int64) (err error) {
	pf, err := openParquet(f, size)
	if err != nil {
		return err
	}
	defer malformed(&err)
	t.schema = pf.Schema()
	for _, g := range pf.RowGroups() {
		if err := t.readGroup(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) readGroup(ctx context.Context, g parquet.RowGroup) error {
	rows := g.Rows()
	defer rows.Close()
	buf := make([]parquet.Row, 64)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			t.rows = append(t.rows, row.Clone())
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("row %d: %w", len(t.rows), err)
		case n == 0:
			return fmt.Errorf("row %d: the file gives no more rows", len(t.rows))
		}
	}
}

func (t *Table) readJSON(ctx context.Context, f io.Reader) error {
	text, err := dump.NewText(f)
	if err != nil {
		return err
	}
	defer text.Close()
	o, err := newObjects(bufio.NewReaderSize(text, 1<<16))
	if err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		raw, line, err := o.next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("row %d, line %d: %w", len(t.lines), line, err)
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil || object == nil {
			return fmt.Errorf("row %d, line %d: it is no JSON object", len(t.lines), line)
		}
		t.lines = append(t.lines, bytes.Clone(bytes.TrimSpace(raw)))
	}
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) + len(t.lines) }

// Row returns the columns of row i as JSON has them: strings, numbers, lists
// and maps.
func (t *Table) Row(i int) (row map[string]any, err error) {
	if t.schema == nil {
		d := json.NewDecoder(bytes.NewReader(t.lines[i]))
		d.UseNumber() // an integer stays one
		err := d.Decode(&row)
		return row, err
	}
	defer malformed(&err)
	var v any
	if err := t.schema.Reconstruct(&v, t.rows[i]); err != nil {
		return nil, fmt.Errorf("%s: row %d: %w", t.path, i, err)
	}
	row, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: row %d is a %T", t.path, i, v)
	}
	return row, nil
}

// At follows a path such as reward_model.ground_truth into a row; nil where
// there is nothing.
func At(row map[string]any, path string) any {
	var v any = row
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// TextAt is At as text: strings as they are, everything else as JSON.
func TextAt(row map[string]any, path string) string {
	switch v := At(row, path).(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		b, err := json.Marshal(v)
		if err != nil { // no value of a file is like that
			return ""
		}
		return string(b)
	}
}

// Add gives every row one more column, a list.
func Add[T string | int64 | float64](t *Table, name string, values [][]T) error {
	if len(values) != t.Len() {
		return fmt.Errorf("%d values of column %s for %d rows", len(values), name, t.Len())
	}
	if err := t.Lacks(name); err != nil {
		return err
	}
	c := addedColumn{name: name, values: make([][]any, len(values))}
	switch any(*new(T)).(type) {
	case string:
		c.node = parquet.String()
	case int64:
		c.node = parquet.Leaf(parquet.Int64Type)
	default:
		c.node = parquet.Leaf(parquet.DoubleType)
	}
	for i, list := range values {
		c.values[i] = make([]any, len(list))
		for k, v := range list {
			c.values[i][k] = v
		}
	}
	t.added = append(t.added, c)
	return nil
}

// Lacks is an error if the table has a column of the name already.
func (t *Table) Lacks(name string) error {
	taken := fmt.Errorf("%s has a column %s already: choose another name", t.path, name)
	for _, c := range t.added {
		if c.name == name {
			return taken
		}
	}
	if t.schema != nil {
		for _, f := range t.schema.Fields() {
			if f.Name() == name {
				return taken
			}
		}
	}
	for _, line := range t.lines {
		var object map[string]json.RawMessage
		if json.Unmarshal(line, &object) == nil {
			if _, ok := object[name]; ok {
				return taken
			}
		}
	}
	return nil
}

// CheckOutput says whether the table can be written to a file of that name:
// parquet to .parquet or .jsonl, JSON to .jsonl, since it has no types.
func (t *Table) CheckOutput(path string) error {
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case ext == ".jsonl", ext == ".parquet" && t.schema != nil:
		return nil
	case ext == ".parquet":
		return fmt.Errorf("%s: the columns of JSON have no types that parquet could keep: end the name in .jsonl", path)
	}
	return fmt.Errorf("%s: the name does not say the format: end it in .jsonl, or in .parquet where the input is parquet", path)
}

// Write writes the table with its new columns, as parquet or JSON lines.
func (t *Table) Write(w io.Writer, asParquet bool) error {
	if asParquet {
		return t.writeParquet(w)
	}
	out := bufio.NewWriter(w)
	for i := range t.Len() {
		line, err := t.line(i)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}

// line is row i as JSON: of a JSON file, its own text with new members.
func (t *Table) line(i int) ([]byte, error) {
	var line []byte
	if t.schema == nil {
		var compact bytes.Buffer
		if err := json.Compact(&compact, t.lines[i]); err != nil {
			return nil, err
		}
		line = compact.Bytes()
	} else {
		row, err := t.Row(i)
		if err != nil {
			return nil, err
		}
		if line, err = plainJSON(row); err != nil {
			return nil, err
		}
	}
	line = line[:len(line)-1] // the brace
	for _, c := range t.added {
		if len(line) > 1 {
			line = append(line, ',')
		}
		text, err := plainJSON(map[string]any{c.name: c.values[i]})
		if err != nil {
			return nil, err
		}
		line = append(line, text[1:len(text)-1]...)
	}
	return append(line, '}'), nil
}

// plainJSON is JSON that people read: < stays <.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// writeParquet copies the values of the old columns as they are and puts those
// of the new ones behind them.
func (t *Table) writeParquet(w io.Writer) error {
	c := columns{Group: parquet.Group{}}
	for _, f := range t.schema.Fields() {
		c.names = append(c.names, f.Name())
		c.Group[f.Name()] = f
	}
	for _, a := range t.added {
		c.names = append(c.names, a.name)
		c.Group[a.name] = parquet.List(a.node)
	}
	schema := parquet.NewSchema("schema", c)
	out := parquet.NewGenericWriter[any](w, schema, parquet.Compression(&parquet.Snappy), parquet.CreatedBy("openmanus", "", ""))
	old := len(t.schema.Columns())
	for i, row := range t.rows {
		row = row[:len(row):len(row)]
		for k, a := range t.added {
			if len(a.values[i]) == 0 {
				row = append(row, parquet.NullValue().Level(0, 0, old+k))
			}
			for n, v := range a.values[i] {
				row = append(row, parquet.ValueOf(v).Level(min(n, 1), 1, old+k))
			}
		}
		if _, err := out.WriteRows([]parquet.Row{row}); err != nil {
			return fmt.Errorf("write parquet: %w", err)
		}
	}
	return out.Close()
}
