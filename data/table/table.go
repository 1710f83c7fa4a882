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

	"github.com/openmanus/openmanus/internal/plainjson"
)

// Table is a data file with arbitrary columns, for tools that add columns. Rows
// are kept as they are and written back without loss.
type Table struct {
	path   string
	schema *parquet.Schema   // nil: JSON
	rows   []parquet.Row     // rows of a parquet file
	lines  []json.RawMessage // objects of a JSON file
	added  []addedColumn
}

// addedColumn is a new column. Each row has one list: of strings, of integers or of floats.
type addedColumn struct {
	name   string
	node   parquet.Node
	values [][]any
}

// Read reads a parquet file, or JSON objects, one per line or in an array.
func Read(ctx context.Context, path string) (*Table, error) {
	t := &Table{path: path}
	err := readRows(ctx, path, func(pf *parquet.File) error {
		t.schema = pf.Schema()
		return eachRow(ctx, pf, func(_ int, row parquet.Row) error {
			t.rows = append(t.rows, row.Clone())
			return nil
		})
	}, func(n, line int, raw []byte) error {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil || object == nil {
			return fmt.Errorf("row %d, line %d: it is not a JSON object", n, line)
		}
		t.lines = append(t.lines, bytes.Clone(bytes.TrimSpace(raw)))
		return nil
	})
	if err == nil && t.Len() == 0 {
		err = errors.New("it has no rows")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) + len(t.lines) }

// Row returns the columns of row i as JSON values: strings, numbers, lists and
// maps.
func (t *Table) Row(i int) (map[string]any, error) {
	if t.schema == nil {
		var row map[string]any
		err := plainjson.Unmarshal(t.lines[i], &row)
		return row, err
	}
	row, err := reconstruct(t.schema, t.rows[i])
	if err != nil {
		return nil, fmt.Errorf("%s: row %d: %w", t.path, i, err)
	}
	return row, nil
}

// At returns the value at a path such as reward_model.ground_truth in a row, nil
// if there is none.
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

// TextAt returns the value at a path as text: a string as it is, "" for nil, any
// other value as JSON.
func TextAt(row map[string]any, path string) string { return asText(At(row, path)) }

func asText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, err := json.Marshal(v)
	if err != nil { // a value of a file can always be encoded
		return ""
	}
	return string(b)
}

// Add adds a column of lists, one per row.
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

// Lacks returns an error if the table already has a column of that name.
func (t *Table) Lacks(name string) error {
	taken := fmt.Errorf("%s already has a column %s: choose another name", t.path, name)
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

// CheckOutput returns an error if the table cannot be written to a file of that
// name. A parquet table can be written as .parquet or .jsonl. A JSON table can only
// be written as .jsonl, since its columns have no types.
func (t *Table) CheckOutput(path string) error {
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case ext == ".jsonl", ext == ".parquet" && t.schema != nil:
		return nil
	case ext == ".parquet":
		return fmt.Errorf("%s: parquet needs column types, which JSON does not have: end the name in .jsonl", path)
	}
	return fmt.Errorf("%s: the name does not state the format: end it in .jsonl, or in .parquet if the input is parquet", path)
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

// line returns row i as JSON. The text of a JSON row is kept and extended.
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
		if line, err = plainjson.Marshal(row); err != nil {
			return nil, err
		}
	}
	line = line[:len(line)-1] // without the closing brace
	for _, c := range t.added {
		if len(line) > 1 {
			line = append(line, ',')
		}
		text, err := plainjson.Marshal(map[string]any{c.name: c.values[i]})
		if err != nil {
			return nil, err
		}
		line = append(line, text[1:len(text)-1]...)
	}
	return append(line, '}'), nil
}

// writeParquet copies the values of the old columns and appends the new columns.
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
