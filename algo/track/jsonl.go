package track

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/openmanus/openmanus/data/crash"
)

var (
	atLine    = crash.New("metrics/line")    // half of a line is written
	atWritten = crash.New("metrics/written") // a whole line is written
)

// The keys of a line that do not name a metric.
const (
	stepKey      = "step"
	nonFiniteKey = "nonfinite"
)

// JSONL appends metrics to a file of JSON lines:
//
//	{"step":3,"actor/lr":1e-06,"actor/pg_loss":-0.25}
//
// step comes first, the metrics follow by name. NaN and infinity, which JSON
// lacks, are written as null, and "nonfinite" is the number of such values in
// the line. Each line is durable when Write returns.
type JSONL struct {
	path   string
	f      *os.File
	offset int64
}

// OpenJSONL opens a metrics file for appending and creates it if it does not
// exist. It removes an incomplete last line, which a killed process may leave.
func OpenJSONL(path string) (*JSONL, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open metrics: %w", err)
	}
	s := &JSONL{path: path, f: f}
	if err := s.cutIncomplete(); err != nil {
		return nil, fmt.Errorf("open metrics %s: %w", path, errors.Join(err, f.Close()))
	}
	return s, nil
}

// cutIncomplete removes an incomplete last line.
func (s *JSONL) cutIncomplete() error {
	text, err := io.ReadAll(s.f)
	if err != nil {
		return err
	}
	const start = `{"` + stepKey + `":`
	if n := min(len(text), len(start)); string(text[:n]) != start[:n] {
		return errors.New("it is not a metrics file: choose another run folder")
	}
	end := bytes.LastIndexByte(text, '\n') + 1
	s.offset = int64(end)
	if end == len(text) {
		return nil
	}
	return s.cut(s.offset)
}

func (s *JSONL) cut(offset int64) error {
	if err := s.f.Truncate(offset); err != nil {
		return err
	}
	s.offset = offset
	return s.f.Sync()
}

// Write appends a line.
func (s *JSONL) Write(step int, m Metrics) error {
	line, err := encode(step, m)
	if err != nil {
		return fmt.Errorf("write metrics %s: %w", s.path, err)
	}
	atLine.PassAfter(func() { _, _ = s.f.Write(line[:len(line)/2]) })
	if _, err := s.f.Write(line); err != nil {
		// If the disk is full, half of the line may be written.
		return fmt.Errorf("write metrics: %w", errors.Join(err, s.cut(s.offset)))
	}
	s.offset += int64(len(line))
	if err := s.f.Sync(); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	atWritten.Pass()
	return nil
}

// encode returns the JSON line of a step.
func encode(step int, m Metrics) ([]byte, error) {
	values, nonFinite := map[string]any{}, 0
	for name, v := range m {
		switch {
		case name == stepKey || name == nonFiniteKey || name == "":
			return nil, fmt.Errorf("%q cannot be the name of a metric", name)
		case math.IsNaN(v) || math.IsInf(v, 0):
			nonFinite++
			values[name] = nil
		default:
			values[name] = v
		}
	}
	byName, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	line := fmt.Appendf(nil, `{"%s":%d`, stepKey, step)
	if len(values) > 0 {
		line = append(line, ',')
		line = append(line, byName[1:len(byName)-1]...)
	}
	if nonFinite > 0 {
		line = fmt.Appendf(line, `,"%s":%d`, nonFiniteKey, nonFinite)
	}
	return append(line, "}\n"...), nil
}

// Offset returns the length of the file.
func (s *JSONL) Offset() (int64, error) { return s.offset, nil }

// TruncateTo removes every line after an offset that Offset returned earlier. A
// resumed run repeats steps and writes their lines again.
func (s *JSONL) TruncateTo(offset int64) error {
	if offset < 0 || offset > s.offset {
		return fmt.Errorf("metrics %s: the checkpoint was saved at byte %d, but the file has only %d: it was cut or replaced", s.path, offset, s.offset)
	}
	if offset > 0 {
		var last [1]byte
		if _, err := s.f.ReadAt(last[:], offset-1); err != nil {
			return fmt.Errorf("metrics %s: %w", s.path, err)
		}
		if last[0] != '\n' {
			return fmt.Errorf("metrics %s: byte %d, where the checkpoint was saved, is inside a line: the file was changed", s.path, offset)
		}
	}
	if err := s.cut(offset); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Close closes the file.
func (s *JSONL) Close() error {
	if err := s.f.Close(); err != nil {
		return fmt.Errorf("close metrics: %w", err)
	}
	return nil
}

// Read passes every line of a metrics file, in order, to the function each. Values that
// were not finite are NaN. An incomplete last line is skipped.
func Read(path string, each func(step int, m Metrics) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("read metrics %s: %w", path, err)
	}
	for n := 1; ; n++ {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		if !complete {
			return nil
		}
		step, m, err := decode(line)
		if err != nil {
			return fmt.Errorf("read metrics %s: line %d: %w", path, n, err)
		}
		if err := each(step, m); err != nil {
			return err
		}
		text = rest
	}
}

func decode(line []byte) (int, Metrics, error) {
	var values map[string]*float64
	if err := json.Unmarshal(line, &values); err != nil {
		return 0, nil, err
	}
	step := values[stepKey]
	if step == nil || *step != math.Trunc(*step) || math.Abs(*step) > 1<<53 {
		return 0, nil, errors.New(`"step" is missing or not an integer`)
	}
	m := Metrics{}
	for name, v := range values {
		switch {
		case name == stepKey || name == nonFiniteKey:
		case v == nil:
			m[name] = math.NaN()
		default:
			m[name] = *v
		}
	}
	return int(*step), m, nil
}
