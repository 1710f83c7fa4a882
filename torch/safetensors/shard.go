package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteFolder writes a model folder's weights: model.safetensors, or shards with an
// index if they exceed o.MaxShardBytes. The folder must exist and contain no
// weights. After an error no file is left behind.
func WriteFolder(dir string, specs []Spec, data Data, o WriteOptions) error {
	if err := writeFolder(dir, specs, data, o); err != nil {
		return fmt.Errorf("write model folder %s: %w", dir, err)
	}
	return nil
}

// writeFolder writes every file under a temporary name before it publishes the
// first, and publishes the index last. A reader never sees an index without its
// shards, and a full disk fails before anything is published.
func writeFolder(dir string, specs []Spec, data Data, o WriteOptions) (err error) {
	for _, name := range []string{SingleFile, IndexFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("the folder already has %s: choose another folder", name)
		}
	}
	shards, err := splitShards(specs, o.MaxShardBytes)
	if err != nil {
		return err
	}
	var paths []string
	defer func() {
		if err == nil {
			return
		}
		for _, p := range paths {
			_ = os.Remove(p + tempSuffix)
			_ = os.Remove(p)
		}
	}()
	index := shardIndex{WeightMap: map[string]string{}}
	at := 0 // index in specs of the shard's first tensor
	for i, shard := range shards {
		name := SingleFile
		if len(shards) > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		}
		paths = append(paths, filepath.Join(dir, name))
		if err := writeTensors(paths[i], shard, func(k int, w io.Writer) error { return data(at+k, w) }, o); err != nil {
			return err
		}
		at += len(shard)
		for _, s := range shard {
			size, _ := s.Info.ByteSize() // splitShards has checked the size
			index.Metadata.TotalSize += size
			index.WeightMap[s.Name] = name
		}
	}
	if len(index.WeightMap) != len(specs) {
		return errors.New("a tensor is declared twice")
	}
	if len(shards) > 1 {
		text, err := json.MarshalIndent(index, "", "  ")
		if err != nil {
			return err
		}
		path := filepath.Join(dir, IndexFile)
		paths = append(paths, path)
		err = writeTemp(path, o, func(f io.WriterAt) error {
			_, err := f.WriteAt(append(text, '\n'), 0)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, path := range paths {
		if err := publish(path); err != nil {
			return err
		}
	}
	return nil
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
