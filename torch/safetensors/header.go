package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

const (
	lengthBytes = 8           // little-endian length of the JSON header
	maxHeader   = 100_000_000 // the format's own limit
	metadataKey = "__metadata__"
	maxDims     = 64
	// maxNames bounds the keys of an object, so that hostile headers are refused
	// quickly. The index of a large model has 276,480 tensors: 60 layers of 384
	// experts with 3 matrices each, which NVFP4 stores in 4 tensors.
	maxNames = 1 << 19
)

// entry is a tensor and its range in the data after the header.
type entry struct {
	Info
	begin, end int64
}

// header is a parsed and checked JSON header.
type header struct {
	tensors  map[string]entry
	names    []string // of tensors, in the order of their data
	metadata map[string]string
}

// parseHeader reads the JSON header of a file whose data part has dataLen
// bytes. It reads tokens one by one, because encoding/json accepts duplicate names
// and keys that differ in case.
func parseHeader(text []byte, dataLen int64) (header, error) {
	h := header{tensors: map[string]entry{}}
	if !utf8.Valid(text) {
		return h, errors.New("header is not UTF-8")
	}
	p := newHeaderParser(text)
	err := p.object(func(name string) error {
		if name == metadataKey {
			if h.metadata != nil {
				return errors.New("duplicate key")
			}
			h.metadata = map[string]string{}
			return p.metadata(h.metadata)
		}
		if _, dup := h.tensors[name]; dup {
			return errors.New("duplicate tensor name")
		}
		e, err := p.tensor()
		h.tensors[name] = e
		return err
	})
	if err == nil {
		err = p.end(text)
	}
	if err != nil {
		return h, fmt.Errorf("header: %w", err)
	}
	h.names = h.byOffset()
	return h, h.checkLayout(dataLen)
}

// checkLayout verifies that the tensors fill the data part exactly, without overlap
// or gap.
func (h header) checkLayout(dataLen int64) error {
	var at int64
	for _, n := range h.names {
		e := h.tensors[n]
		if e.begin != at {
			what := "a hole"
			if e.begin < at {
				what = "an overlap"
			}
			return fmt.Errorf("tensor %q: data begins at %d, which leaves %s before it (expected %d)", clip(n), e.begin, what, at)
		}
		if e.end > dataLen {
			return fmt.Errorf("tensor %q: data ends at %d, but the file has only %d bytes of data (it may be truncated)", clip(n), e.end, dataLen)
		}
		at = e.end
	}
	if at != dataLen {
		return fmt.Errorf("the file has %d bytes of data, its tensors take %d", dataLen, at)
	}
	return nil
}

// byOffset returns the tensor names in the order of their data.
func (h header) byOffset() []string {
	type place struct {
		name       string
		begin, end int64
	}
	places := make([]place, 0, len(h.tensors))
	for n, e := range h.tensors {
		places = append(places, place{n, e.begin, e.end})
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	names := make([]string, len(places))
	for i, p := range places {
		names[i] = p.name
	}
	return names
}

type headerParser struct{ dec *json.Decoder }

func newHeaderParser(text []byte) *headerParser {
	p := &headerParser{dec: json.NewDecoder(bytes.NewReader(text))}
	p.dec.UseNumber()
	return p
}

// end returns an error if text follows the parsed value.
func (p *headerParser) end(text []byte) error {
	if rest := bytes.TrimLeft(text[p.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return fmt.Errorf("%d bytes follow the JSON object", len(rest))
	}
	return nil
}

// token reads the next token; the end of the text is an error.
func (p *headerParser) token() (json.Token, error) {
	t, err := p.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return t, err
}

func (p *headerParser) delim(d json.Delim) error {
	t, err := p.token()
	if err != nil {
		return err
	}
	if t != d {
		return fmt.Errorf("expected %q, found %v", d.String(), t)
	}
	return nil
}

// object calls value for each key; value must consume the key's value.
func (p *headerParser) object(value func(key string) error) error {
	if err := p.delim('{'); err != nil {
		return err
	}
	for n := 1; p.dec.More(); n++ {
		if n > maxNames {
			return fmt.Errorf("more than %d names in one object", maxNames)
		}
		key, err := p.str()
		if err != nil {
			return err
		}
		if err := value(key); err != nil {
			return fmt.Errorf("%q: %w", clip(key), err)
		}
	}
	return p.delim('}')
}

func (p *headerParser) str() (string, error) {
	t, err := p.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("expected a string, found %v", t)
	}
	return s, nil
}

// ints reads an array of at most limit non-negative integers.
func (p *headerParser) ints(limit int) ([]int64, error) {
	if err := p.delim('['); err != nil {
		return nil, err
	}
	out := []int64{}
	for p.dec.More() {
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		num, ok := t.(json.Number)
		if !ok {
			return nil, fmt.Errorf("expected an integer, found %v", t)
		}
		v, err := strconv.ParseInt(num.String(), 10, 64)
		if err != nil || v < 0 {
			return nil, fmt.Errorf("%s is not a non-negative 64-bit integer", clip(num.String()))
		}
		if len(out) == limit {
			return nil, fmt.Errorf("more than %d numbers", limit)
		}
		out = append(out, v)
	}
	return out, p.delim(']')
}

func (p *headerParser) metadata(into map[string]string) error {
	return p.object(func(key string) error {
		if _, dup := into[key]; dup {
			return errors.New("duplicate key")
		}
		v, err := p.str()
		into[key] = v
		return err
	})
}

func (p *headerParser) tensor() (entry, error) {
	var e entry
	var offsets []int64
	seen := map[string]bool{}
	err := p.object(func(key string) (err error) {
		if seen[key] {
			return errors.New("duplicate key")
		}
		seen[key] = true
		switch key {
		case "dtype":
			var s string
			s, err = p.str()
			e.DType = DType(s)
		case "shape":
			e.Shape, err = p.ints(maxDims)
		case "data_offsets":
			offsets, err = p.ints(2)
		default:
			err = errors.New("unknown key")
		}
		return err
	})
	if err != nil {
		return e, err
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return e, fmt.Errorf("%q is missing", key)
		}
	}
	if len(offsets) != 2 || offsets[0] > offsets[1] {
		return e, fmt.Errorf("data_offsets %v are not [begin, end]", offsets)
	}
	e.begin, e.end = offsets[0], offsets[1]
	size, err := e.ByteSize()
	if err != nil {
		return e, err
	}
	if size != e.end-e.begin {
		return e, fmt.Errorf("%s%v takes %d bytes, data_offsets span %d", e.DType, e.Shape, size, e.end-e.begin)
	}
	return e, nil
}

// clip shortens a name for messages.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
