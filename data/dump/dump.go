package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/plainjson"
)

// A dump is a file of JSON lines: a Header, then one episode per line. It only
// grows at its end, so a process that dies leaves at most one incomplete line. A
// compressed dump has one zstd frame per line.
const (
	Format  = "openmanus-episodes"
	Version = 1
)

// Header is a dump's first line.
type Header struct {
	Format  string         `json:"format"` // filled in by the writer
	Version int            `json:"version"`
	Weights string         `json:"weights"`           // hash of the model that played the episodes
	Options map[string]any `json:"options,omitempty"` // options of the run that played the episodes
}

// mask is a mask with the JSON form of an array of numbers: encoding/json
// encodes []uint8 as a base64 string.
type mask []uint8

func (m mask) MarshalJSON() ([]byte, error) {
	numbers := make([]uint16, len(m))
	for i, v := range m {
		numbers[i] = uint16(v)
	}
	return json.Marshal(numbers)
}

func (m *mask) UnmarshalJSON(text []byte) error {
	var v []uint16 // not []uint8, which is decoded from base64
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	*m = make(mask, len(v))
	for i, x := range v {
		if x > 1 {
			return fmt.Errorf("mask[%d] is %d, not 0 or 1", i, x)
		}
		(*m)[i] = uint8(x)
	}
	return nil
}

// episodeLine is the line of an episode: the JSON of data.Episode, its task and
// its mask. Slices are never null, so that scripts need no special case.
type episodeLine struct {
	TaskID string `json:"task_id"`
	Env    string `json:"env"`
	Label  string `json:"label,omitempty"`
	Index  int    `json:"index"`
	data.Episode
	Mask    mask   `json:"mask"`
	Weights string `json:"weights"`
}

func newLine(e *data.Episode, weights string) episodeLine {
	l := episodeLine{TaskID: e.Task.ID, Env: e.Task.Env, Label: e.Task.Label, Index: e.Task.Index, Episode: *e, Mask: mask(e.Mask), Weights: weights}
	l.Turns, l.Tokens, l.LogProbs = orEmpty(e.Turns), orEmpty(e.Tokens), orEmpty(e.LogProbs)
	l.Messages, l.Exchanges = orEmpty(e.Messages), orEmpty(e.Exchanges)
	return l
}

func (l *episodeLine) episode() *data.Episode {
	e := l.Episode
	e.Task, e.Mask = data.Task{ID: l.TaskID, Env: l.Env, Label: l.Label, Index: l.Index}, l.Mask
	return &e
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Reader reads a dump, plain or compressed with zstd, one episode at a time. Its
// lines include the header, which is line 1.
type Reader struct {
	*LineReader
	path   string
	header Header
}

// Open opens a dump and reads its header.
func Open(path string) (*Reader, error) {
	lines, err := OpenLines(path)
	if err != nil {
		return nil, fmt.Errorf("open dump: %w", err)
	}
	r := &Reader{LineReader: lines, path: path}
	if err := r.readHeader(); err != nil {
		_ = lines.Close()
		return nil, fmt.Errorf("open dump %s: %w", path, err)
	}
	return r, nil
}

func (r *Reader) readHeader() error {
	text, err := r.LineReader.Next()
	if errors.Is(err, io.EOF) {
		return errors.New("it has no header line: it is not a dump, or writing stopped before the first line was complete")
	}
	if err != nil {
		return err
	}
	r.header, err = parseHeader(text)
	return err
}

// parseHeader reads the first line of a dump, with numbers as json.Number, because
// a float64 cannot represent every seed.
func parseHeader(line []byte) (Header, error) {
	var h Header
	if err := plainjson.Unmarshal(line, &h); err != nil || h.Format != Format {
		return h, fmt.Errorf("its first line is not the header of a dump (no \"format\": %q)", Format)
	}
	if h.Version != Version {
		return h, fmt.Errorf("it has version %d, this program reads version %d", h.Version, Version)
	}
	return h, nil
}

// ReadFile returns the episodes of a dump.
func ReadFile(path string) (episodes []*data.Episode, err error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return episodes, nil
		}
		if err != nil {
			return nil, err
		}
		episodes = append(episodes, e)
	}
}

// Header returns the dump's header.
func (r *Reader) Header() Header { return r.header }

// Next returns the next episode. The error after the last one is io.EOF.
func (r *Reader) Next() (*data.Episode, error) {
	text, err := r.LineReader.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read dump %s: %w", r.path, err)
	}
	var l episodeLine
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("read dump %s: line %d: %w", r.path, r.Line(), err)
	}
	return l.episode(), nil
}
