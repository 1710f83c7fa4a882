package run

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/openmanus/openmanus/internal/errext"
)

// hubID matches the name of a model on the Hugging Face hub, "Qwen/Qwen2.5-3B".
var hubID = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)

// ModelPath is the path of a model: a folder or file as it is named, or else the
// copy of a model of the hub in the cache of Hugging Face's own tools. Nothing is
// downloaded.
func ModelPath(h *Host, name string) string {
	if _, err := h.Stat(name); err != nil && hubID.MatchString(name) {
		if copied := hubCopy(h, name); copied != "" {
			return copied
		}
	}
	return h.Path(name)
}

// hubCache is the folder of that cache.
func hubCache(h *Host) string {
	if dir := h.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	home := h.Getenv("HF_HOME")
	if home == "" {
		cache := h.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			cache = filepath.Join(h.Getenv("HOME"), ".cache")
		}
		home = filepath.Join(cache, "huggingface")
	}
	return filepath.Join(home, "hub")
}

// hubCopy is the folder of a hub model's main branch in the cache, "" if it is
// not there.
func hubCopy(h *Host, id string) string {
	repository := filepath.Join(hubCache(h), "models--"+strings.ReplaceAll(id, "/", "--"))
	const longest = 1 << 10
	commit, err := h.ReadFile(filepath.Join(repository, "refs", "main"), longest)
	if err != nil {
		return ""
	}
	dir := filepath.Join(repository, "snapshots", filepath.Base(strings.TrimSpace(string(commit))))
	if _, err := h.Stat(filepath.Join(dir, "config.json")); err != nil {
		return ""
	}
	return h.Path(dir)
}

// ModelHint is what to do where there is no model of that name.
func ModelHint(h *Host, name string) string {
	const hint = "give the path of a Hugging Face folder or of a .gguf file"
	if !hubID.MatchString(name) {
		return hint
	}
	return hint + "; a model of the hub is taken from the cache " + hubCache(h) + ", where `hf download " + name + "` puts it"
}

// CheckModel refuses a path where there is nothing. key is what the user named it by.
func CheckModel(h *Host, key, path string) error {
	_, err := h.Stat(ModelPath(h, path))
	if err == nil {
		return nil
	}
	hint := ""
	if errors.Is(err, fs.ErrNotExist) {
		hint = ModelHint(h, path)
	}
	return errext.With(errext.Model, hint, fmt.Errorf("%s: %w", key, err))
}
