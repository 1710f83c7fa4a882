package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// WriteOptions are the options of a file.
type WriteOptions struct {
	// Metadata is the metadata of the header; nil means {"format": "pt"}, which
	// transformers requires.
	Metadata map[string]string
	// MaxShardBytes splits a folder's weights into shards of at most this many
	// bytes of data (a larger tensor gets a separate shard). 0 means one file.
	MaxShardBytes int64

	create func(path string) (tempFile, error) // replaced in tests to make writes fail
}

// tempFile has the methods of os.File that the writer uses.
type tempFile interface {
	io.WriterAt
	Sync() error
	Close() error
}

func createTemp(path string) (tempFile, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
}

// Data writes the bytes of a tensor (little-endian, row-major) to w, in parts of any size. i is the tensor's index in the specs.
type Data func(i int, w io.Writer) error

// WriteFile writes a file of the given tensors atomically. It calls data once for each. After an error a file at the path is
// unchanged.
//
// Tensors are ordered by element size, largest first, then by name, so that each
// is aligned to its element size and equal tensors give equal files.
func WriteFile(path string, specs []Spec, data Data, o WriteOptions) error {
	if err := writeTensors(path, specs, data, o); err != nil {
		return err
	}
	return publish(path)
}

// writeTensors writes the temporary file of a safetensors file.
func writeTensors(path string, specs []Spec, data Data, o WriteOptions) error {
	if o.Metadata == nil {
		o.Metadata = map[string]string{"format": "pt"}
	}
	head, tensors, err := buildHeader(specs, o.Metadata)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeTemp(path, o, func(f io.WriterAt) error {
		if _, err := f.WriteAt(head, 0); err != nil {
			return err
		}
		for i, s := range specs {
			w := tensorWriter{to: f, at: int64(len(head)), e: tensors[s.Name]}
			err := data(i, &w)
			if err == nil {
				err = w.check(w.written)
			}
			if err != nil {
				return fmt.Errorf("tensor %q: %w", s.Name, err)
			}
		}
		return nil
	})
}

// tensorWriter writes the bytes of a tensor to a file.
type tensorWriter struct {
	to      io.WriterAt
	at      int64 // position of the first tensor
	e       entry
	written int64
}

// Write implements io.Writer.
func (w *tensorWriter) Write(part []byte) (int, error) {
	if after := w.written + int64(len(part)); after > w.e.end-w.e.begin {
		return 0, w.check(after)
	}
	n, err := w.to.WriteAt(part, w.at+w.e.begin+w.written)
	w.written += int64(n)
	return n, err
}

// check returns an error if the tensor does not take n bytes.
func (w *tensorWriter) check(n int64) error {
	if e := w.e; n != e.end-e.begin {
		return fmt.Errorf("%d bytes, %s%v takes %d", n, e.DType, e.Shape, e.end-e.begin)
	}
	return nil
}

// Replace writes a file atomically: a temporary file, synced and renamed.
func Replace(path string, write func(io.WriterAt) error) error {
	if err := writeTemp(path, WriteOptions{}, write); err != nil {
		return err
	}
	return publish(path)
}

const tempSuffix = ".tmp"

// writeTemp writes and syncs a temporary file beside path, which publish renames.
// It removes the temporary file after an error.
func writeTemp(path string, o WriteOptions, write func(io.WriterAt) error) error {
	create := o.create
	if create == nil {
		create = createTemp
	}
	f, err := create(path + tempSuffix)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path + tempSuffix)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// publish renames the temporary file of path to path and syncs the folder.
func publish(path string) error {
	if err := os.Rename(path+tempSuffix, path); err != nil {
		_ = os.Remove(path + tempSuffix)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}

// buildHeader assigns offsets to the tensors and returns the length field and the
// JSON header, padded with spaces so that the data begins at a multiple of 8.
func buildHeader(specs []Spec, metadata map[string]string) ([]byte, map[string]entry, error) {
	specs = slices.Clone(specs)
	slices.SortStableFunc(specs, func(a, b Spec) int {
		return cmp.Or(cmp.Compare(b.Info.DType.Size(), a.Info.DType.Size()), cmp.Compare(a.Name, b.Name))
	})
	var buf bytes.Buffer
	buf.Write(make([]byte, lengthBytes))
	buf.WriteByte('{')
	if len(metadata) > 0 {
		text, err := json.Marshal(metadata) // json.Marshal sorts the keys
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&buf, "%q:%s", metadataKey, text)
	}
	tensors := make(map[string]entry, len(specs))
	var at int64
	for _, s := range specs {
		if !utf8.ValidString(s.Name) || s.Name == metadataKey {
			return nil, nil, fmt.Errorf("invalid tensor name %q", s.Name)
		}
		if _, dup := tensors[s.Name]; dup {
			return nil, nil, fmt.Errorf("tensor %q is declared twice", s.Name)
		}
		size, err := s.Info.ByteSize()
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", s.Name, err)
		}
		if size > math.MaxInt64-maxHeader-lengthBytes-at {
			return nil, nil, errors.New("the tensors are too large for one file")
		}
		e := entry{Info: Info{DType: s.Info.DType, Shape: slices.Clone(s.Info.Shape)}, begin: at, end: at + size}
		at = e.end
		tensors[s.Name] = e
		if buf.Len() > lengthBytes+1 {
			buf.WriteByte(',')
		}
		shape := e.Shape
		if shape == nil {
			shape = []int{} // a scalar's shape is [], not null
		}
		text, err := json.Marshal(map[string]any{s.Name: struct {
			DType   DType    `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{e.DType, shape, [2]int64{e.begin, e.end}}})
		if err != nil {
			return nil, nil, err
		}
		buf.Write(text[1 : len(text)-1]) // text without its braces: "name":{...}
	}
	buf.WriteByte('}')
	for buf.Len()%lengthBytes != 0 {
		buf.WriteByte(' ')
	}
	head := buf.Bytes()
	if len(head)-lengthBytes > maxHeader {
		return nil, nil, fmt.Errorf("the header of %d tensors is larger than %d bytes", len(specs), maxHeader)
	}
	binary.LittleEndian.PutUint64(head, uint64(len(head)-lengthBytes))
	return head, tensors, nil
}
