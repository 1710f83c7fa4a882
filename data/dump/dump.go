package dump

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/openmanus/openmanus/data"
)

// A dump is a file of JSON lines: a DumpHeader, then an episode a line. It
// grows only at the end, so a process that dies leaves at most one torn line.
// Compressed, it is a zstd frame a line.
const (
	Format  = "openmanus-episodes"
	Version = 1
)

// Header is a dump's first line.
type Header struct {
	Format  string         `json:"format"` // filled in by the writer
	Version int            `json:"version"`
	Weights string         `json:"weights"`           // hash of the model that played
	Options map[string]any `json:"options,omitempty"` // how it played, for people and scripts
}

// mask is a mask as an array of numbers; encoding/json would make []uint8
// a base64 string.
type mask []uint8

func (m mask) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2*len(m)+2)
	out = append(out, '[')
	for i, v := range m {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(v), 10)
	}
	return append(out, ']'), nil
}

func (m *mask) UnmarshalJSON(text []byte) error {
	var v []uint16 // not []uint8, which reads base64
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

// line is an episode's line. Slices are never null, so that scripts need
// no special case.
type episodeLine struct {
	TaskID        string          `json:"task_id"`
	Env           string          `json:"env"`
	Label         string          `json:"label,omitempty"`
	Index         int             `json:"index"`
	UID           string          `json:"uid"`
	Sample        int             `json:"sample"`
	Wave          int             `json:"wave,omitempty"`
	WaveSize      int             `json:"wave_size,omitempty"`
	Seed          uint64          `json:"seed"`
	Outcome       data.Outcome    `json:"outcome"`
	Reward        float64         `json:"reward"`
	Cumulative    bool            `json:"cumulative,omitempty"`
	Instruction   string          `json:"instruction,omitempty"`
	First         string          `json:"first_observation,omitempty"`
	Truncated     bool            `json:"prompt_truncated,omitempty"`
	Server        string          `json:"server,omitempty"`
	Turns         []data.Turn     `json:"turns"`
	IDs           []int32         `json:"ids"`
	Mask          mask            `json:"mask"`
	LogProbs      []float32       `json:"logprobs"`
	Contexts      []int           `json:"contexts,omitempty"`
	Messages      []data.Message  `json:"messages"`
	Created       []data.Exchange `json:"created,omitempty"`
	Exchanges     []data.Exchange `json:"exchanges"`
	Weights       string          `json:"weights"`
	WeightVersion int64           `json:"weight_version"`
	Attempts      int             `json:"attempts"`
	Replays       int             `json:"replays,omitempty"`
	Millis        float64         `json:"ms"`
	Err           string          `json:"error,omitempty"`
}

func newLine(e *data.Episode, weights string) episodeLine {
	return episodeLine{
		TaskID: e.Task.ID, Env: e.Task.Env, Label: e.Task.Label, Index: e.Task.Index, UID: e.UID, Sample: e.Sample, Seed: e.Seed,
		Wave: e.Wave, WaveSize: e.WaveSize, Instruction: e.Instruction, First: e.FirstObservation, Truncated: e.PromptTruncated, Server: e.Server, Created: e.Created,
		Outcome: e.Outcome, Reward: e.Reward, Cumulative: e.Cumulative, Turns: orEmpty(e.Turns), IDs: orEmpty(e.Tokens), Mask: mask(e.Mask),
		LogProbs: orEmpty(e.LogProbs), Contexts: e.Contexts, Messages: orEmpty(e.Messages), Exchanges: orEmpty(e.Exchanges), Weights: weights,
		WeightVersion: e.WeightVersion, Attempts: e.Attempts, Replays: e.Replays, Millis: e.Millis, Err: e.Err,
	}
}

func (l *episodeLine) episode() *data.Episode {
	return &data.Episode{
		Task: data.Task{ID: l.TaskID, Env: l.Env, Label: l.Label, Index: l.Index}, UID: l.UID, Sample: l.Sample, Seed: l.Seed,
		Wave: l.Wave, WaveSize: l.WaveSize, Instruction: l.Instruction, FirstObservation: l.First, PromptTruncated: l.Truncated, Server: l.Server, Created: l.Created,
		Outcome: l.Outcome, Reward: l.Reward, Cumulative: l.Cumulative, Turns: l.Turns, Tokens: l.IDs, Mask: l.Mask, LogProbs: l.LogProbs,
		Contexts: l.Contexts, Messages: l.Messages, Exchanges: l.Exchanges, WeightVersion: l.WeightVersion, Attempts: l.Attempts, Replays: l.Replays, Millis: l.Millis, Err: l.Err,
	}
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Reader reads a dump, plain or compressed with zstd, an episode at a time.
type Reader struct {
	path   string
	lines  *LineReader
	header Header
}

// Open opens a dump and reads its header.
func Open(path string) (*Reader, error) {
	lines, err := OpenLines(path)
	if err != nil {
		return nil, fmt.Errorf("open dump: %w", err)
	}
	r := &Reader{path: path, lines: lines}
	if err := r.readHeader(); err != nil {
		_ = lines.Close()
		return nil, fmt.Errorf("open dump %s: %w", path, err)
	}
	return r, nil
}

func (r *Reader) readHeader() error {
	text, err := r.lines.Next()
	if errors.Is(err, io.EOF) {
		return errors.New("it has no header line")
	}
	if err != nil {
		return err
	}
	r.header, err = parseHeader(text)
	return err
}

// parseHeader reads a dump's first line. The numbers among the options keep
// their digits, as json.Number: seeds have more than a float64 holds.
func parseHeader(line []byte) (Header, error) {
	var h Header
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&h); err != nil || h.Format != Format {
		return h, fmt.Errorf("its first line is not the header of a dump (no \"format\": %q)", Format)
	}
	if h.Version != Version {
		return h, fmt.Errorf("it has version %d, this program reads version %d", h.Version, Version)
	}
	return h, nil
}

// marked is the header as it is written.
func (h Header) marked() Header {
	h.Format, h.Version = Format, Version
	return h
}

// Header returns the dump's header.
func (r *Reader) Header() Header { return r.header }

// Next returns the next episode, or io.EOF after the last.
func (r *Reader) Next() (*data.Episode, error) {
	text, err := r.lines.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read dump %s: %w", r.path, err)
	}
	var l episodeLine
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("read dump %s: line %d: %w", r.path, r.lines.Line(), err)
	}
	return l.episode(), nil
}

// Line is the number of the line of the episode that Next returned last, from
// 1; the header's is 1.
func (r *Reader) Line() int { return r.lines.Line() }

// Torn reports, after the end, whether a torn last line was dropped.
func (r *Reader) Torn() bool { return r.lines.Torn() }

// Compressed reports whether the dump is compressed.
func (r *Reader) Compressed() bool { return r.lines.Compressed() }

// Close closes the file.
func (r *Reader) Close() error { return r.lines.Close() }
