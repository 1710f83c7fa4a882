package run

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward/external"
)

// RewardDigests are the hashes of the files that decide what the score functions of a
// [reward] section say: those of the reward model, and those that the command
// of a program names, the program's own among them. What a program imports and
// what is behind an address cannot be seen from here.
func RewardDigests(h *Host, r configs.Reward) (map[string]string, error) {
	files := map[string]string{}
	add := func(path string) (err error) {
		files[path], err = h.HashFile(path)
		return err
	}
	if r.ModelPath != "" {
		info, err := h.Stat(r.ModelPath)
		if err != nil {
			return nil, errext.With(errext.Model, "", fmt.Errorf("reward model: %w", err))
		}
		if !info.IsDir() {
			return nil, errext.With(errext.Model, "", fmt.Errorf("reward model: %s is no folder", r.ModelPath))
		}
		entries, err := fs.ReadDir(h.DirFS(r.ModelPath), ".")
		if err != nil {
			return nil, errext.With(errext.Model, "", fmt.Errorf("reward model: %w", err))
		}
		all := sha256.New()
		for _, e := range entries { // by name
			path := filepath.Join(r.ModelPath, e.Name())
			if info, err := h.Stat(path); err != nil || !info.Mode().IsRegular() {
				continue
			}
			hash, err := h.HashFile(path)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(all, "%q %s\n", e.Name(), hash)
		}
		files[r.ModelPath] = hex.EncodeToString(all.Sum(nil))
	}
	for _, fn := range scoreFnsOf(r) {
		for i, word := range external.Words(fn) {
			if i == 0 && !strings.Contains(word, "/") {
				continue // it is looked for in PATH
			}
			_, value, _ := strings.Cut(word, "=") // of --option=FILE
			for _, path := range []string{word, value} {
				if info, err := h.Stat(path); path == "" || err != nil || !info.Mode().IsRegular() {
					continue
				}
				if err := add(path); err != nil {
					return nil, err
				}
			}
		}
	}
	return files, nil
}
