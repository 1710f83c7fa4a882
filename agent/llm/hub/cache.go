package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files of a model folder.
const (
	configFile        = "config.json"
	weightsFile       = "model.safetensors"
	indexFile         = "model.safetensors.index.json"
	adapterConfigFile = "adapter_config.json"
	adapterFile       = "adapter_model.safetensors"
)

// repo returns the folder of a model in the cache.
func (s Settings) repo(id string) string {
	return filepath.Join(s.Cache, repoFolder(id))
}

func repoFolder(id string) string { return "models--" + strings.ReplaceAll(id, "/", "--") }

// ErrNotCached means that the cache lacks a model or a part of it.
var ErrNotCached = errors.New("is not in the cache")

// Find returns the path of a model in the cache: a snapshot folder, or a file if the name has one. The error is
// ErrNotCached if the cache lacks the model or a part of it.
func (s Settings) Find(n Name) (string, error) {
	repo := s.repo(n.ID)
	commit := n.Revision
	if text, err := os.ReadFile(filepath.Join(repo, "refs", n.Revision)); err == nil {
		commit = filepath.Base(strings.TrimSpace(string(text)))
	}
	dir := filepath.Join(repo, "snapshots", commit)
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("%s %w %s", n, ErrNotCached, s.Cache)
	}
	path, err := modelIn(dir, n.File)
	if err != nil {
		return "", fmt.Errorf("%s %w %s completely: %w", n, ErrNotCached, s.Cache, err)
	}
	return path, nil
}

// modelIn returns the path of the model in a snapshot folder.
func modelIn(dir, file string) (string, error) {
	if file != "" {
		path := filepath.Join(dir, filepath.FromSlash(file))
		return path, has(path)
	}
	need := func(names ...string) (string, error) {
		for _, name := range names {
			if err := has(filepath.Join(dir, name)); err != nil {
				return "", err
			}
		}
		return dir, nil
	}
	if has(filepath.Join(dir, adapterConfigFile)) == nil && has(filepath.Join(dir, configFile)) != nil {
		return need(adapterFile)
	}
	if has(filepath.Join(dir, configFile)) != nil {
		files, err := fs.Glob(os.DirFS(dir), "*.gguf")
		switch {
		case err != nil:
			return "", err
		case len(files) == 0:
			return need(configFile)
		case len(files) > 1:
			return "", fmt.Errorf("%s has %d .gguf files: add /FILE.gguf to the name", dir, len(files))
		}
		_, err = need(files[0])
		return filepath.Join(dir, files[0]), err
	}
	if has(filepath.Join(dir, weightsFile)) == nil {
		return dir, nil
	}
	text, err := os.ReadFile(filepath.Join(dir, indexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return need(weightsFile)
	}
	if err != nil {
		return "", err
	}
	shards, err := shardsOf(text)
	if err != nil {
		return "", err
	}
	return need(shards...)
}

// has returns an error unless path exists. A link to a missing file does not exist.
func has(path string) error {
	_, err := os.Stat(path)
	return err
}

// shardsOf returns the files of weights that model.safetensors.index.json lists.
func shardsOf(index []byte) ([]string, error) {
	var doc struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	var shards []string
	for _, name := range doc.WeightMap {
		if name != filepath.Base(name) || !strings.HasSuffix(name, ".safetensors") {
			return nil, fmt.Errorf("%s names the file %.80q, want a .safetensors file of the same folder", indexFile, name)
		}
		shards = append(shards, name)
	}
	if len(shards) == 0 {
		return nil, fmt.Errorf("%s lists no weights", indexFile)
	}
	slices.Sort(shards)
	return slices.Compact(shards), nil
}
