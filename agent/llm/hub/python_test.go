package hub

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/hub/hubtest"
	"github.com/openmanus/openmanus/internal/readertest"
)

// TestPython checks that huggingface_hub reads a cache of this package without a request, and that this package reads and
// completes a cache of huggingface_hub.
func TestPython(t *testing.T) {
	s, files := hubtest.New(t), tiny()
	commit := s.Add("acme/tiny", hubtest.Repo{Files: files, Revisions: []string{"main", "v1"}})
	python := func(cache, script string) string {
		t.Helper()
		return strings.TrimSpace(readertest.Run(t, fmt.Sprintf(`
import os
os.environ.update(HF_ENDPOINT=%q, HF_HUB_CACHE=%q, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
from huggingface_hub import snapshot_download, hf_hub_download, scan_cache_dir, try_to_load_from_cache
`, s.URL, cache)+script))
	}

	t.Run("from Go to Python", func(t *testing.T) {
		set := settings(s, t)
		c, _, _ := newClient(t, set)
		got, err := c.Fetch(t.Context(), name(t, "acme/tiny@v1"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		before := len(s.Requests())
		out := python(set.Cache, `
import json
found = try_to_load_from_cache("acme/tiny", "model.safetensors", revision="v1")
local = hf_hub_download("acme/tiny", "config.json", revision="v1", local_files_only=True)
repo, = scan_cache_dir().repos
rev, = repo.revisions
print(json.dumps([os.path.dirname(found), os.path.dirname(local), repo.repo_id, repo.size_on_disk, rev.commit_hash, sorted(rev.refs), sorted(f.file_name for f in rev.files), [str(w) for w in scan_cache_dir().warnings]]))
`)
		want, err := json.Marshal([]any{got.Path, got.Path, "acme/tiny", got.Bytes, commit, []string{"v1"}, fetched, []string{}})
		if err != nil {
			t.Fatal(err)
		}
		if strings.ReplaceAll(out, ", ", ",") != string(want) {
			t.Errorf("Python finds\n%s, want\n%s", out, want)
		}
		if len(s.Requests()) != before {
			t.Error("Python sent a request")
		}
		// A download of the whole repository takes the files of the cache and adds the others.
		dir := python(set.Cache, `print(snapshot_download("acme/tiny", revision="v1"))`)
		if dir != got.Path {
			t.Errorf("Python downloads to %s, want %s", dir, got.Path)
		}
		for _, r := range s.Requests()[before:] {
			if r.Storage && strings.Contains(r.Path, filepath.Base(hashIn(t, s))) {
				t.Errorf("Python downloads the weights again: %+v", r)
			}
		}
	})

	t.Run("from Python to Go", func(t *testing.T) {
		set := settings(s, t)
		part := python(set.Cache, `print(snapshot_download("acme/tiny", allow_patterns=["config.json"]))`)
		if _, err := set.Find(name(t, "acme/tiny")); err == nil || !strings.Contains(err.Error(), "model.safetensors") {
			t.Errorf("a part of the model: %v", err)
		}
		dir := python(set.Cache, `print(snapshot_download("acme/tiny", ignore_patterns=["onnx/*", "*.bin"]))`)
		if path, err := set.Find(name(t, "acme/tiny")); err != nil || path != dir || path != part {
			t.Errorf("Find returns %s, %v, want %s", path, err, dir)
		}
		c, _, _ := newClient(t, set)
		got, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{})
		if err != nil || got.Path != dir || got.Downloaded != 0 {
			t.Errorf("got %+v, %v, want %s without a download", got, err, dir)
		}
	})
}
