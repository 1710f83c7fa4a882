package cli

import (
	"path/filepath"
	"regexp"
	"strings"
)

// hubID matches the name of a model on the Hugging Face hub, "Qwen/Qwen2.5-3B".
var hubID = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)

// modelPath is the path of a model: a folder or file as it is named, or else the
// copy of a model of the hub in the cache of Hugging Face's own tools. Nothing is
// downloaded.
func (s *State) modelPath(name string) string {
	if _, err := s.Stat(name); err != nil && hubID.MatchString(name) {
		if copied := s.hubCopy(name); copied != "" {
			return copied
		}
	}
	return s.Path(name)
}

// hubCache is the folder of that cache.
func (s *State) hubCache() string {
	if dir := s.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	home := s.Getenv("HF_HOME")
	if home == "" {
		cache := s.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			cache = filepath.Join(s.Getenv("HOME"), ".cache")
		}
		home = filepath.Join(cache, "huggingface")
	}
	return filepath.Join(home, "hub")
}

// hubCopy is the folder of a hub model's main branch in the cache, "" if it is
// not there.
func (s *State) hubCopy(id string) string {
	repository := filepath.Join(s.hubCache(), "models--"+strings.ReplaceAll(id, "/", "--"))
	const longest = 1 << 10
	commit, err := s.ReadFile(filepath.Join(repository, "refs", "main"), longest)
	if err != nil {
		return ""
	}
	dir := filepath.Join(repository, "snapshots", filepath.Base(strings.TrimSpace(string(commit))))
	if _, err := s.Stat(filepath.Join(dir, "config.json")); err != nil {
		return ""
	}
	return s.Path(dir)
}

// modelHint is what to do where there is no model of that name.
func (s *State) modelHint(name string) string {
	const hint = "give the path of a Hugging Face folder or of a .gguf file"
	if !hubID.MatchString(name) {
		return hint
	}
	return hint + "; a model of the hub is taken from the cache " + s.hubCache() + ", where `hf download " + name + "` puts it"
}
