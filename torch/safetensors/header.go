package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

const (
	lengthBytes = 8           // little-endian length of the JSON header
	maxHeader   = 100_000_000 // the limit of the format
	metadataKey = "__metadata__"
	maxDims     = 64
	// maxNames bounds the keys of an object, so that hostile headers fail
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
	dataAt   int64 // offset of the data in the file
	tensors  map[string]entry
	names    []string // tensor names, in the order of their data
	metadata map[string]string
}

// parseHeader reads the JSON header of a file whose data part has dataLen
// bytes.
func parseHeader(text []byte, dataLen int64) (header, error) {
	h := header{tensors: map[string]entry{}}
	values, err := object(text)
	if err != nil {
		return h, fmt.Errorf("header: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == metadataKey {
			h.metadata, err = stringMap(values[name])
		} else {
			h.tensors[name], err = parseEntry(values[name])
		}
		if err != nil {
			return h, fmt.Errorf("header: %.80q: %w", name, err)
		}
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
			return fmt.Errorf("tensor %.80q: data begins at %d, which leaves %s before it (expected %d)", n, e.begin, what, at)
		}
		if e.end > dataLen {
			return fmt.Errorf("tensor %.80q: data ends at %d, but the file has only %d bytes of data (it may be truncated)", n, e.end, dataLen)
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
	names := slices.Collect(maps.Keys(h.tensors))
	slices.SortFunc(names, func(a, b string) int {
		x, y := h.tensors[a], h.tensors[b]
		return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(x.end, y.end), cmp.Compare(a, b))
	})
	return names
}

// object splits the text of a JSON object into the texts of its values. It
// refuses duplicate keys, which encoding/json accepts.
func object(text []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return nil, errors.New("expected a JSON object")
	}
	if err := json.Unmarshal(text, &struct{}{}); err != nil { // check the syntax of the whole text
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	values := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		name := key.(string)
		if _, dup := values[name]; dup {
			return nil, fmt.Errorf("duplicate key %.80q", name)
		}
		if len(values) == maxNames {
			return nil, fmt.Errorf("more than %d names in one object", maxNames)
		}
		values[name] = value
	}
	return values, nil
}

// stringMap parses a JSON object whose values are strings.
func stringMap(text []byte) (map[string]string, error) {
	values, err := object(text)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(values))
	for key, value := range values {
		if out[key], err = parseString(value); err != nil {
			return nil, fmt.Errorf("%.80q: %w", key, err)
		}
	}
	return out, nil
}

func parseString(text []byte) (string, error) {
	var s *string
	if err := json.Unmarshal(text, &s); err != nil || s == nil {
		return "", fmt.Errorf("expected a string, found %.80s", text)
	}
	return *s, nil
}

// parseInts parses a JSON array of at most limit non-negative integers.
func parseInts(text []byte, limit int) ([]int, error) {
	var values []json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil || values == nil {
		return nil, fmt.Errorf("expected an array, found %.80s", text)
	}
	if len(values) > limit {
		return nil, fmt.Errorf("more than %d numbers", limit)
	}
	out := make([]int, len(values))
	for i, v := range values {
		n, err := strconv.ParseUint(string(v), 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%.80s is not a non-negative 64-bit integer", v)
		}
		out[i] = int(n)
	}
	return out, nil
}

// parseEntry parses the description of one tensor.
func parseEntry(text []byte) (e entry, err error) {
	values, err := object(text)
	if err != nil {
		return e, err
	}
	keys := []string{"dtype", "shape", "data_offsets"}
	for key := range values {
		if !slices.Contains(keys, key) {
			return e, fmt.Errorf("unknown key %.80q", key)
		}
	}
	for _, key := range keys {
		if values[key] == nil {
			return e, fmt.Errorf("%q is missing", key)
		}
	}
	dtype, err := parseString(values["dtype"])
	if err != nil {
		return e, fmt.Errorf("dtype: %w", err)
	}
	e.DType = DType(dtype)
	if e.Shape, err = parseInts(values["shape"], maxDims); err != nil {
		return e, fmt.Errorf("shape: %w", err)
	}
	offsets, err := parseInts(values["data_offsets"], 2)
	if err != nil {
		return e, fmt.Errorf("data_offsets: %w", err)
	}
	if len(offsets) != 2 || offsets[0] > offsets[1] {
		return e, fmt.Errorf("data_offsets %v are not [begin, end]", offsets)
	}
	e.begin, e.end = int64(offsets[0]), int64(offsets[1])
	size, err := e.ByteSize()
	if err != nil {
		return e, err
	}
	if size != e.end-e.begin {
		return e, fmt.Errorf("%s%v takes %d bytes, data_offsets span %d", e.DType, e.Shape, size, e.end-e.begin)
	}
	return e, nil
}
