package table

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/openmanus/openmanus/internal/plainjson"
)

// Layout is the format in which rows are written.
type Layout struct {
	Format string // ParquetFile, LinesFile or ArrayFile
	// Chat writes JSON rows as {"id", "conversations": [{"role", "content"}]}
	// instead of AgentTraj's {"item_id", "conversations": [{"from", "value",
	// "loss"}]}.
	Chat bool
}

// LayoutOf returns the format for a file name.
func LayoutOf(path string) (Layout, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".parquet":
		return Layout{Format: ParquetFile}, nil
	case ".jsonl":
		return Layout{Format: LinesFile}, nil
	case ".json":
		return Layout{Format: ArrayFile}, nil
	}
	return Layout{}, fmt.Errorf("%s: the name does not state the format: end it in .parquet, .jsonl or .json", path)
}

// RecordWriter writes the rows of a data file.
type RecordWriter interface {
	Write(r *Record) error
	// Close completes the file. It does not close the io.Writer.
	Close() error
}

// NewRecordWriter returns a writer of a data file.
func NewRecordWriter(w io.Writer, l Layout) RecordWriter {
	if l.Format == ParquetFile {
		schema := recordSchema()
		options := []parquet.WriterOption{schema, parquet.Compression(&parquet.Snappy), parquet.CreatedBy("openmanus", "", "")}
		for _, column := range schema.Columns() {
			// Skip page bounds: they are whole texts, which the library would keep in
			// memory until the file is complete.
			options = append(options, parquet.SkipPageBounds(column...))
		}
		return &parquetWriter{w: parquet.NewGenericWriter[any](w, options...), schema: schema, group: rowGroupBytes}
	}
	return &jsonWriter{w: w, layout: l}
}

// rowGroupBytes limits the text of a row group, which the library keeps in memory
// until the group is complete.
const rowGroupBytes = 64 << 20

type parquetWriter struct {
	w      *parquet.GenericWriter[any]
	schema *parquet.Schema
	row    parquet.Row
	bytes  int // bytes of text in the row group so far
	group  int // number of bytes of text that completes a row group
}

// Write adds a row.
func (p *parquetWriter) Write(r *Record) error {
	p.row = deconstruct(p.schema, p.row[:0], r)
	if _, err := p.w.WriteRows([]parquet.Row{p.row}); err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	for _, v := range p.row {
		if v.Kind() == parquet.ByteArray {
			p.bytes += len(v.ByteArray())
		}
	}
	if p.bytes < p.group {
		return nil
	}
	p.bytes = 0
	return p.w.Flush()
}

// Close writes the footer.
func (p *parquetWriter) Close() error { return p.w.Close() }

type jsonWriter struct {
	w      io.Writer
	layout Layout
	n      int
}

// jsonLine is a row in the notation of AgentTraj or of chats. ItemID or ID is a *string, which may be nil.
type jsonLine struct {
	ItemID        any        `json:"item_id,omitempty"`
	ID            any        `json:"id,omitempty"`
	DataSource    *string    `json:"data_source,omitempty"`
	ExtraInfo     *indexOnly `json:"extra_info,omitempty"`
	Conversations []any      `json:"conversations"`
}

type indexOnly struct {
	Index *int64 `json:"index"`
}

type trajectoryMessage struct {
	From  *string `json:"from"`
	Value *string `json:"value"`
	Loss  *bool   `json:"loss"`
}

type chatMessage struct {
	Role    *string `json:"role"`
	Content *string `json:"content"`
	Loss    *bool   `json:"loss,omitempty"` // false for a reply that is not in the loss, else omitted
}

// Write adds a row. It adds the environment and the index to a row whose id does
// not contain them, so that the row remains the same task.
func (j *jsonWriter) Write(r *Record) error {
	row := jsonLine{ItemID: r.ItemID, Conversations: []any{}}
	if j.layout.Chat {
		row.ItemID, row.ID = nil, r.ItemID
	}
	prefix, _, ok := splitID(deref(r.ItemID))
	if r.DataSource != nil && envOf("", prefix+"_0") != *r.DataSource {
		row.DataSource = r.DataSource
	}
	if !ok && r.ExtraInfo != nil && r.ExtraInfo.Index != nil {
		row.ExtraInfo = &indexOnly{r.ExtraInfo.Index}
	}
	for _, m := range r.Conversations {
		var message any = trajectoryMessage{m.from(), m.text(), m.Loss}
		if j.layout.Chat {
			chat := chatMessage{Role: m.role(), Content: m.text()}
			if m.Loss != nil && !*m.Loss {
				chat.Loss = m.Loss
			}
			message = chat
		}
		row.Conversations = append(row.Conversations, message)
	}
	text, err := plainjson.Marshal(row)
	if err != nil {
		return err
	}
	switch {
	case j.layout.Format != ArrayFile:
		text = append(text, '\n')
	case j.n == 0:
		text = append([]byte("[\n"), text...)
	default:
		text = append([]byte(",\n"), text...)
	}
	j.n++
	_, err = j.w.Write(text)
	return err
}

// Close ends the array.
func (j *jsonWriter) Close() error {
	if j.layout.Format != ArrayFile {
		return nil
	}
	end := "\n]\n"
	if j.n == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(j.w, end)
	return err
}
