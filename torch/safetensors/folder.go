package safetensors

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// The names of weight files in a Hugging Face model folder.
const (
	SingleFile = "model.safetensors"
	IndexFile  = "model.safetensors.index.json"
)

// Folder holds the weights of a model folder: one file or several shards.
type Folder struct {
	dir   string
	files []*File
	at    map[string]*File // shard of each tensor, by name
	names []string
}

// OpenFolder opens a folder's model.safetensors or, if it does not exist, the
// shards that model.safetensors.index.json lists; transformers prefers the files in
// the same order. In a sharded folder the index defines the tensors; each must be
// in the shard that the index names.
func OpenFolder(dir string) (*Folder, error) {
	file, err := Open(filepath.Join(dir, SingleFile))
	if err == nil {
		f := &Folder{dir: dir, files: []*File{file}, at: map[string]*File{}, names: file.Names()}
		for _, n := range f.names {
			f.at[n] = file
		}
		return f, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	text, err := readIndex(filepath.Join(dir, IndexFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open model folder %s: neither %s nor %s found: %w", dir, SingleFile, IndexFile, os.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("open model folder: %w", err)
	}
	f, err := openShards(dir, text)
	if err != nil {
		return nil, fmt.Errorf("open model folder %s: %w", dir, err)
	}
	return f, nil
}

func readIndex(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxHeader {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxHeader)
	}
	return os.ReadFile(path)
}

func openShards(dir string, index []byte) (_ *Folder, err error) {
	weights, err := parseIndex(index)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", IndexFile, err)
	}
	f := &Folder{dir: dir, at: map[string]*File{}, names: slices.Sorted(maps.Keys(weights))}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	shards := map[string]*File{}
	for _, name := range f.names {
		shard := weights[name]
		file := shards[shard]
		if file == nil {
			if file, err = Open(filepath.Join(dir, filepath.FromSlash(shard))); err != nil {
				return nil, err
			}
			shards[shard] = file
			f.files = append(f.files, file)
		}
		if _, ok := file.Info(name); !ok {
			return nil, fmt.Errorf("the index names %.80s for tensor %.80q, but the file does not contain it", shard, name)
		}
		f.at[name] = file
	}
	return f, nil
}

// parseIndex reads the weight_map of an index and checks that all shards are inside
// the folder. It ignores other keys.
func parseIndex(text []byte) (map[string]string, error) {
	values, err := object(text)
	if err != nil {
		return nil, err
	}
	if values["weight_map"] == nil {
		return nil, errors.New("weight_map is missing")
	}
	weights, err := stringMap(values["weight_map"])
	if err != nil {
		return nil, fmt.Errorf("weight_map: %w", err)
	}
	if len(weights) == 0 {
		return nil, errors.New("weight_map is empty")
	}
	for name, shard := range weights {
		if local := filepath.FromSlash(shard); !filepath.IsLocal(local) || filepath.Clean(local) != local {
			return nil, fmt.Errorf("weight_map: tensor %.80q: shard path %.80q is outside of the folder", name, shard)
		}
	}
	return weights, nil
}

// Names returns the names of all tensors.
func (f *Folder) Names() []string { return slices.Clone(f.names) }

// Info describes the named tensor; ok is false if the folder has none.
func (f *Folder) Info(name string) (info Info, ok bool) {
	file := f.at[name]
	if file == nil {
		return Info{}, false
	}
	return file.Info(name)
}

// Tensor returns a tensor and a view of its bytes, as File.Tensor does.
func (f *Folder) Tensor(name string) (Info, []byte, error) {
	file := f.at[name]
	if file == nil {
		return Info{}, nil, fmt.Errorf("model folder %s: no tensor %q", f.dir, name)
	}
	return file.Tensor(name)
}

// Close unmaps every file. A second Close does nothing.
func (f *Folder) Close() error {
	var errs []error
	for _, file := range f.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
