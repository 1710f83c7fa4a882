package track

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Sinks.Add(registry.Entry{Name: "csv", Doc: "metrics.csv in the run folder, one row per line"}, func(_ context.Context, r Run) (Sink, error) {
		return &csvSink{path: filepath.Join(r.Folder, "metrics.csv")}, nil
	})
}

// csvSink writes metrics.csv: the columns phase, step and time, and one column per
// metric. A metric that appears later adds a column at the right, for which the
// file is rewritten; earlier rows are empty there.
type csvSink struct {
	path    string
	f       *os.File // nil before the first line
	columns []string
}

// Write appends a row.
func (s *csvSink) Write(l Line) error {
	if err := s.write(l); err != nil {
		return fmt.Errorf("write metrics.csv: %w", err)
	}
	return nil
}

func (s *csvSink) write(l Line) error {
	var added []string
	for _, name := range l.names() {
		if !slices.Contains(s.columns, name) {
			added = append(added, name)
		}
	}
	if s.f == nil || len(added) > 0 {
		if err := s.widen(added); err != nil {
			return err
		}
	}
	row := []string{string(l.Phase), strconv.Itoa(l.Step), ""}
	if !l.Time.IsZero() {
		row[2] = strconv.FormatFloat(l.seconds(), 'f', 3, 64)
	}
	for _, name := range s.columns[len(row):] {
		field := ""
		if x, ok := l.Metrics[name]; ok {
			field = strconv.FormatFloat(x, 'g', -1, 64)
		}
		row = append(row, field)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(row); err != nil {
		return err
	}
	w.Flush()
	_, err := s.f.Write(b.Bytes())
	return err
}

// widen replaces the file by one with additional columns.
func (s *csvSink) widen(added []string) error {
	earlier := s.f
	if earlier == nil {
		s.columns = []string{"phase", "step", "time"}
	}
	s.columns = append(s.columns, added...)
	f, err := os.OpenFile(s.path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	s.f = f
	w := csv.NewWriter(f)
	err = w.Write(s.columns)
	if earlier != nil {
		err = errors.Join(err, copyRows(w, earlier, len(added)), earlier.Close())
	}
	w.Flush()
	return errors.Join(err, w.Error(), os.Rename(f.Name(), s.path))
}

// copyRows copies the rows after the header and appends empty fields to each.
func copyRows(w *csv.Writer, from *os.File, added int) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := csv.NewReader(from)
	if _, err := r.Read(); err != nil {
		return err
	}
	for {
		row, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.Write(append(row, make([]string, added)...)); err != nil {
			return err
		}
	}
}

// Close makes the file durable and closes it.
func (s *csvSink) Close() error {
	if s.f == nil {
		return nil
	}
	if err := errors.Join(s.f.Sync(), s.f.Close()); err != nil {
		return fmt.Errorf("write metrics.csv: %w", err)
	}
	return nil
}
