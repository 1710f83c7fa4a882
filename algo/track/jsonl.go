package track

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/openmanus/openmanus/data/crash"
)

var (
	atLine    = crash.New("metrics/line")    // half of a line is written
	atWritten = crash.New("metrics/written") // a whole line is written
)

// The keys of a line that do not name a metric.
const (
	stepKey      = "step"
	phaseKey     = "phase"
	timeKey      = "time"
	nonFiniteKey = "nonfinite"
)

// JSONL appends metrics to a file of JSON lines:
//
//	{"step":3,"phase":"train","time":1790000000.125,"actor/lr":1e-06,"actor/pg_loss":-0.25}
//
// time is in Unix seconds. The metrics follow by name. NaN and infinity, which JSON
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
func (s *JSONL) Write(l Line) error {
	line, err := encode(l)
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

// encode returns the JSON line of l.
func encode(l Line) ([]byte, error) {
	if l.Phase == "" {
		return nil, errors.New("a line has no phase")
	}
	values, nonFinite := map[string]any{}, 0
	for name, v := range l.Metrics {
		switch {
		case name == "" || isKey(name):
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
	line := fmt.Appendf(nil, `{"%s":%d,"%s":%q`, stepKey, l.Step, phaseKey, l.Phase)
	if !l.Time.IsZero() {
		line = fmt.Appendf(line, `,"%s":%.3f`, timeKey, float64(l.Time.UnixMilli())/1000)
	}
	if len(values) > 0 {
		line = append(line, ',')
		line = append(line, byName[1:len(byName)-1]...)
	}
	if nonFinite > 0 {
		line = fmt.Appendf(line, `,"%s":%d`, nonFiniteKey, nonFinite)
	}
	return append(line, "}\n"...), nil
}

func isKey(name string) bool {
	return name == stepKey || name == phaseKey || name == timeKey || name == nonFiniteKey
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
// were not finite are NaN. An incomplete last line is skipped. Lines of older versions lack
// the phase and the time: Read derives the phase, and the time is zero.
func Read(path string, each func(l Line) error) error {
	_, err := ReadFrom(path, 0, each)
	return err
}

// ReadFrom is Read from an offset, which is 0 or the result of an earlier call. It returns the
// offset after the last complete line.
func ReadFrom(path string, offset int64, each func(l Line) error) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return offset, fmt.Errorf("read metrics: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return offset, fmt.Errorf("read metrics: %w", err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return offset, fmt.Errorf("read metrics %s: %w", path, err)
	}
	from := offset
	for n := 1; ; n++ {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		if !complete {
			return offset, nil
		}
		l, err := decode(line)
		if err != nil {
			where := fmt.Sprintf("line %d", n)
			if from > 0 {
				where += fmt.Sprintf(" after byte %d", from)
			}
			return offset, fmt.Errorf("read metrics %s: %s: %w", path, where, err)
		}
		if err := each(l); err != nil {
			return offset, err
		}
		text, offset = rest, offset+int64(len(line))+1
	}
}

func decode(line []byte) (Line, error) {
	var values map[string]any
	if err := json.Unmarshal(line, &values); err != nil {
		return Line{}, err
	}
	step, ok := values[stepKey].(float64)
	if !ok || step != math.Trunc(step) || math.Abs(step) > 1<<53 {
		return Line{}, errors.New(`"step" is missing or not an integer`)
	}
	l := Line{Step: int(step), Metrics: Metrics{}}
	for name, v := range values {
		switch v := v.(type) {
		case nil:
			if isKey(name) {
				return Line{}, fmt.Errorf("%q is null", name)
			}
			l.Metrics[name] = math.NaN()
		case float64:
			switch {
			case name == phaseKey:
				return Line{}, fmt.Errorf("the value of %q is %g, want a string", name, v)
			case name == timeKey:
				l.Time = time.UnixMilli(int64(math.Round(v * 1000)))
			case !isKey(name):
				l.Metrics[name] = v
			}
		case string:
			if name != phaseKey || v == "" {
				return Line{}, fmt.Errorf("the value of %q is %q, want a number", name, v)
			}
			l.Phase = Phase(v)
		default:
			return Line{}, fmt.Errorf("the value of %q is not a number", name)
		}
	}
	if l.Phase == "" {
		l.derivePhase()
	}
	return l, nil
}

// derivePhase sets the phase and the step of a line of an older version, in which
// lines before the first step had step 0 and their step as a metric.
func (l *Line) derivePhase() {
	l.Phase = PhaseTrain
	if l.Step != 0 {
		return
	}
	if step, ok := l.Metrics[ReadStep]; ok {
		l.Phase, l.Step = PhaseRead, int(step)
	} else if step, ok := l.Metrics[SFTStep]; ok {
		l.Phase, l.Step = PhaseSFT, int(step)
	}
}
