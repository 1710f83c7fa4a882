package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/reward/external"
)

// referenceInput is the key of the digest of the reference's weights.
const referenceInput = "the reference of the KL"

// inputDigests returns digests of the files that the configuration names, by
// key: tasks, instructions, recorded conversations and the files of score
// functions. addReference adds that of the reference.
func (t *training) inputDigests() (map[string]string, error) {
	out := map[string]string{}
	var faults []error
	add := func(key string, x any) {
		text, err := json.Marshal(x)
		faults = append(faults, err)
		out[key] = eval.Digest(text)
	}
	addTraining := func(key string, tasks []data.Task) {
		add(key, tasks)
		out[key] = fmt.Sprintf("%d tasks, %s", len(tasks), out[key])
	}
	if t.dump != nil {
		addTraining("data.from_dump", t.dump.tasks)
	} else {
		for _, e := range t.envs {
			name := "env." + e.cfg.Called()
			add(name+".val_tasks", e.val)
			add(name+".instruction", e.setup.Options.Instruction)
			addTraining(name+".tasks", e.train)
			if e.cfg.Kind != configs.KindPrompt {
				continue
			}
			digests, err := rewardDigests(t.host, configs.Reward{ScoreFn: e.cfg.ScoreFn})
			if err != nil {
				return nil, err
			}
			for path, hash := range digests {
				out[name+".score_fn "+path] = "sha256:" + hash
			}
		}
	}
	if t.cfg.Model.ChatTemplate != "" || len(t.cfg.Model.ChatTemplateKwargs) > 0 {
		add("model.chat_template", t.bundle.ChatTemplate())
	}
	if len(t.recordedTasks) > 0 && (t.warm != nil || t.evolves()) {
		add("sft.files", t.recordedTasks)
	}
	if len(t.heldOut) > 0 {
		add("sft.val_files", t.heldOut)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if t.mode == reinforced {
		digests, err := rewardDigests(t.host, t.cfg.Reward)
		if err != nil {
			return nil, err
		}
		for path, hash := range digests {
			out["[reward] "+path] = "sha256:" + hash
		}
	}
	return out, nil
}

// addReference adds the digest of the reference's weights, unless they are in the run folder.
func (t *training) addReference(ctx context.Context, inputs map[string]string, ref *model.Model) error {
	if ref == nil || t.freezesReference() || t.cfg.Model.LoRARank > 0 && t.cfg.Ref.Path == "" {
		return nil
	}
	hash, err := ref.Hash(ctx)
	if err != nil {
		return errext.With(errext.Native, "", err)
	}
	inputs[referenceInput] = hash
	return nil
}

// checkInputs returns an error if a digest differs from the checkpoint's.
func (r *runFolder) checkInputs(now map[string]string) error {
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
	return errext.With(errext.Input, "", fmt.Errorf("files that the configuration names have changed since the checkpoint %s:\n%s\n"+
		"restore them to resume, or give trainer.experiment another name to train anew", r.checkpoint.Path, strings.Join(others, "\n")))
}

// rewardDigests returns the SHA-256 of the files of the score functions of a
// [reward] section, by path: the reward model, and the files in the command line of
// an external program. Imports of the program and scoring servers are not included.
func rewardDigests(h *Host, r configs.Reward) (map[string]string, error) {
	files := map[string]string{}
	regular := func(path string) bool {
		info, err := h.Stat(path)
		return err == nil && info.Mode().IsRegular()
	}
	if r.ModelPath != "" {
		entries, err := fs.ReadDir(h.DirFS(r.ModelPath), ".")
		if err != nil {
			return nil, errext.With(errext.Model, "", fmt.Errorf("reward model: %w", err))
		}
		all := sha256.New()
		for _, e := range entries { // ReadDir sorts by name
			path := filepath.Join(r.ModelPath, e.Name())
			if !regular(path) {
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
		for i, word := range external.Args(fn) {
			if i == 0 && !strings.Contains(word, "/") {
				continue // a program in PATH has no digest
			}
			_, value, _ := strings.Cut(word, "=") // FILE of --option=FILE
			for _, path := range []string{word, value} {
				if path == "" || !regular(path) {
					continue
				}
				hash, err := h.HashFile(path)
				if err != nil {
					return nil, err
				}
				files[path] = hash
			}
		}
	}
	return files, nil
}
