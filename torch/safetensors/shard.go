package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFolder writes a model folder's weights: model.safetensors, or shards with an
// index if they exceed o.MaxShardBytes. It calls fetch for each tensor just before
// writing it, so that one tensor at a time is in memory; fetch may reuse the bytes
// at its next call. The folder must exist without weights. After an error no file
// is left behind.
func WriteFolder(dir string, specs []Spec, fetch func(name string) ([]byte, error), o WriteOptions) error {
	for _, name := range []string{SingleFile, IndexFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("write model folder %s: it already has %s: choose another folder", dir, name)
		}
	}
	shards, err := splitShards(specs, o.MaxShardBytes)
	if err != nil {
		return fmt.Errorf("write model folder %s: %w", dir, err)
	}
	if len(shards) == 1 {
		return writeFiles(dir, []string{SingleFile}, shards, nil, fetch, o)
	}
	names := make([]string, len(shards))
	index := shardIndex{WeightMap: map[string]string{}}
	for i, shard := range shards {
		names[i] = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		for _, s := range shard {
			size, _ := s.Info.ByteSize() // checked by splitShards
			index.Metadata.TotalSize += size
			index.WeightMap[s.Name] = names[i]
		}
	}
	if len(index.WeightMap) != len(specs) {
		return fmt.Errorf("write model folder %s: a tensor is declared twice", dir)
	}
	text, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return err
	}
	return writeFiles(dir, names, shards, append(text, '\n'), fetch, o)
}

type shardIndex struct {
	Metadata struct {
		TotalSize int64 `json:"total_size"`
	} `json:"metadata"`
	WeightMap map[string]string `json:"weight_map"`
}

// splitShards splits the tensors, in the caller's order, into shards of at most
// limit bytes.
func splitShards(specs []Spec, limit int64) ([][]Spec, error) {
	shards := [][]Spec{{}}
	var used int64
	for _, s := range specs {
		size, err := s.Info.ByteSize()
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", s.Name, err)
		}
		last := len(shards) - 1
		if limit > 0 && len(shards[last]) > 0 && size > limit-used {
			shards, used, last = append(shards, nil), 0, last+1
		}
		shards[last] = append(shards[last], s)
		used += size
	}
	return shards, nil
}

// writeFiles writes every shard under a temporary name before it publishes the
// first, and the index last. A reader never sees an index without its shards, and a
// full disk fails before anything is published.
func writeFiles(dir string, names []string, shards [][]Spec, index []byte, fetch func(string) ([]byte, error), o WriteOptions) (err error) {
	var writers []*Writer
	var published []string
	defer func() {
		if err == nil {
			return
		}
		for _, w := range writers {
			_ = w.Close()
		}
		for _, p := range published {
			_ = os.Remove(p)
		}
	}()
	for i, shard := range shards {
		w, err := Create(filepath.Join(dir, names[i]), shard, o)
		if err != nil {
			return err
		}
		writers = append(writers, w)
		for _, s := range shard {
			data, err := fetch(s.Name)
			if err != nil {
				return fmt.Errorf("write model folder %s: tensor %q: %w", dir, s.Name, err)
			}
			if err := w.Tensor(s.Name, data); err != nil {
				return err
			}
		}
		if err := w.finish(); err != nil {
			return err
		}
	}
	for _, w := range writers {
		published = append(published, w.path)
		if err := w.publish(); err != nil {
			return err
		}
	}
	if index == nil {
		return nil
	}
	path := filepath.Join(dir, IndexFile)
	published = append(published, path)
	return writeIndex(path, index, o)
}

func writeIndex(path string, text []byte, o WriteOptions) error {
	create := o.create
	if create == nil {
		create = createTemp
	}
	temp := path + ".tmp"
	f, err := create(temp)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.WriteAt(text, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}
