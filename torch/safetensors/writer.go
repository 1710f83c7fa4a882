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
	"sort"
	"unicode/utf8"
)

// WriteOptions are the options of a file.
type WriteOptions struct {
	// Metadata is the metadata of the header; nil means {"format": "pt"}, which
	// transformers requires.
	Metadata map[string]string
	// MaxShardBytes splits a folder's weights into shards of at most this many
	// bytes of data (a larger tensor gets a shard of its own). 0 means one file.
	MaxShardBytes int64

	create func(path string) (tempFile, error) // replaced in tests to make writes fail
}

func (o WriteOptions) metadata() map[string]string {
	if o.Metadata == nil {
		return map[string]string{"format": "pt"}
	}
	return o.Metadata
}

// tempFile is the part of os.File that a Writer needs.
type tempFile interface {
	io.WriterAt
	Sync() error
	Close() error
}

func createTemp(path string) (tempFile, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
}

// Writer writes one file. Data goes to a temporary file beside the target, which
// Commit syncs and renames.
type Writer struct {
	path, temp string
	f          tempFile
	dataAt     int64
	tensors    map[string]entry
	missing    map[string]bool
	done       bool
}

// Create starts a file of exactly the given tensors. They are ordered by element
// size, largest first, then by name, so that each is aligned to its element size
// and equal tensors give equal files.
func Create(path string, specs []Spec, o WriteOptions) (*Writer, error) {
	head, tensors, err := buildHeader(specs, o.metadata())
	if err != nil {
		return nil, fmt.Errorf("write safetensors %s: %w", path, err)
	}
	create := o.create
	if create == nil {
		create = createTemp
	}
	w := &Writer{path: path, temp: path + ".tmp", dataAt: int64(len(head)), tensors: tensors, missing: map[string]bool{}}
	for name := range tensors {
		w.missing[name] = true
	}
	if w.f, err = create(w.temp); err != nil {
		return nil, fmt.Errorf("write safetensors: %w", err)
	}
	if _, err := w.f.WriteAt(head, 0); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("write safetensors %s: %w", path, err)
	}
	return w, nil
}

// WriteFile writes a file of the given tensors atomically. It calls data for the
// bytes of specs[i] just before writing them.
func WriteFile(path string, specs []Spec, data func(i int) ([]byte, error), o WriteOptions) error {
	w, err := Create(path, specs, o)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // after an error it removes the temporary file
	for i, s := range specs {
		b, err := data(i)
		if err != nil {
			return fmt.Errorf("write safetensors %s: tensor %q: %w", path, s.Name, err)
		}
		if err := w.Tensor(s.Name, b); err != nil {
			return err
		}
	}
	return w.Commit()
}

// Tensor writes the bytes of one declared tensor (little-endian, row-major).
// Tensors may come in any order, each once.
func (w *Writer) Tensor(name string, data []byte) error {
	if w.done {
		return ErrClosed
	}
	e, ok := w.tensors[name]
	if !ok {
		return fmt.Errorf("write safetensors %s: tensor %q was not declared", w.path, name)
	}
	if !w.missing[name] {
		return fmt.Errorf("write safetensors %s: tensor %q was already written", w.path, name)
	}
	if int64(len(data)) != e.end-e.begin {
		return fmt.Errorf("write safetensors %s: tensor %q has %d bytes, %s%v takes %d", w.path, name, len(data), e.DType, e.Shape, e.end-e.begin)
	}
	if _, err := w.f.WriteAt(data, w.dataAt+e.begin); err != nil {
		return fmt.Errorf("write safetensors %s: tensor %q: %w", w.path, name, err)
	}
	delete(w.missing, name)
	return nil
}

// Commit syncs the file and renames it to its path. After an error the temporary
// file is removed and a file at the path is unchanged.
func (w *Writer) Commit() error {
	if err := w.finish(); err != nil {
		return err
	}
	return w.publish()
}

// finish syncs and closes the temporary file, and removes it after an error.
func (w *Writer) finish() (err error) {
	if w.done {
		return ErrClosed
	}
	defer func() {
		if err != nil {
			_ = w.Close()
			err = fmt.Errorf("write safetensors %s: %w", w.path, err)
		}
	}()
	if n := len(w.missing); n > 0 {
		names := make([]string, 0, n)
		for name := range w.missing {
			names = append(names, name)
		}
		sort.Strings(names)
		return fmt.Errorf("%d tensors were not written, the first is %q", n, names[0])
	}
	if err := w.f.Sync(); err != nil {
		return err
	}
	err = w.f.Close()
	w.f = nil
	return err
}

// publish renames the finished file and syncs the folder.
func (w *Writer) publish() error {
	w.done = true
	if err := os.Rename(w.temp, w.path); err != nil {
		_ = os.Remove(w.temp)
		return fmt.Errorf("write safetensors: %w", err)
	}
	return syncDir(filepath.Dir(w.path))
}

// Close removes the temporary file of a file that was not committed. After Commit
// it does nothing, so that it can be deferred.
func (w *Writer) Close() error {
	if w.done {
		return nil
	}
	w.done = true
	var errs []error
	if w.f != nil {
		errs = append(errs, w.f.Close())
	}
	errs = append(errs, os.Remove(w.temp))
	return errors.Join(errs...)
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
		text, err := json.Marshal(metadata) // sorts its keys
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
		if err := e.encode(&buf, s.Name); err != nil {
			return nil, nil, err
		}
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

func (e entry) encode(buf *bytes.Buffer, name string) error {
	shape := e.Shape
	if shape == nil {
		shape = []int64{} // a scalar's shape is [], not null
	}
	text, err := json.Marshal(map[string]struct {
		DType   DType    `json:"dtype"`
		Shape   []int64  `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}{name: {e.DType, shape, [2]int64{e.begin, e.end}}})
	if err != nil {
		return err
	}
	buf.Write(text[1 : len(text)-1]) // the object's inside: "name":{...}
	return nil
}
