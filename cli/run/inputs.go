package run

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"path/filepath"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward/external"
)

// inputs are digests of what the configuration only names, by key: the tasks,
// the instructions, the recorded conversations, the files that score functions
// are made of, and the weights that the KL is measured to. ref is nil where
// these are not read from a folder that is not the run's own.
func (t *training) inputs(ctx context.Context, ref *model.Model) (map[string]string, error) {
	out := map[string]string{}
	add := func(key string, x any) error {
		text, err := json.Marshal(x)
		out[key] = eval.Digest(text)
		return err
	}
	for i, tasks := range t.train {
		name := "data.from_dump"
		if t.dump == nil {
			name = "env." + t.cfg.Env[i].Called()
			if err := add(name+".val_tasks", t.val[i]); err != nil {
				return nil, err
			}
			if err := add(name+".instruction", t.setups[i].Options.Instruction); err != nil {
				return nil, err
			}
			name += ".tasks"
		}
		if err := add(name, tasks); err != nil {
			return nil, err
		}
		out[name] = fmt.Sprintf("%d tasks, %s", len(tasks), out[name])
	}
	if len(t.imitated) > 0 && (t.warm != nil || t.evolves()) {
		if err := add("sft.files", t.imitated); err != nil {
			return nil, err
		}
	}
	if len(t.heldOut) > 0 {
		if err := add("sft.val_files", t.heldOut); err != nil {
			return nil, err
		}
	}
	if t.mode == reinforced {
		judges, err := RewardDigests(t.host, t.cfg.Reward)
		if err != nil {
			return nil, err
		}
		for path, hash := range judges {
			out["[reward] "+path] = "sha256:" + hash
		}
	}
	if ref != nil {
		hash, err := ref.Hash(ctx)
		if err != nil {
			return nil, errext.With(errext.Native, "", err)
		}
		out["the reference of the KL"] = hash
	}
	return out, nil
}

// sameInputs refuses to go on with other inputs than the checkpoint's.
func (r *openedRun) sameInputs(now map[string]string) error {
	if r.state == nil {
		return nil
	}
	var others []string
	for _, key := range slices.Sorted(maps.Keys(r.state.Inputs)) {
		if is, ok := now[key]; ok && is != r.state.Inputs[key] {
			others = append(others, fmt.Sprintf("  %s: %s -> %s", key, r.state.Inputs[key], is))
		}
	}
	if len(others) == 0 {
		return nil
	}
	return errext.With(errext.Input, "", fmt.Errorf("what the configuration names is not what it was at the checkpoint %s:\n%s\n"+
		"put it back to go on, or give trainer.experiment another name to train anew", r.checkpoint.Path, strings.Join(others, "\n")))
}

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
