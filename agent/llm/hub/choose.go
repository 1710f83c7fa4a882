package hub

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/internal/errext"
)

// smallFiles are the patterns of the files that are fetched beside the weights.
var smallFiles = []string{
	configFile, "generation_config.json", adapterConfigFile,
	"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "tokenizer.model",
	"chat_template.jinja", "chat_template.json",
	"LICENSE*", "NOTICE*", "README.md",
}

// pickled lists the extensions of pickle files, which can execute code when they are read.
var pickled = []string{".bin", ".pt", ".pth", ".ckpt", ".pkl"}

// choose returns the files of a model to fetch. With patterns, the weights are the files that match one of
// them. The index is the content of model.safetensors.index.json, nil if the repository has no such file.
func choose(n Name, files []file, patterns []string, index []byte) ([]file, error) {
	byName := map[string]file{}
	var out []file
	for _, f := range files {
		byName[f.name] = f
		if matches(f.name, smallFiles) {
			out = append(out, f)
		}
	}
	if n.File != "" {
		patterns = append(slices.Clone(patterns), n.File)
	}
	if len(patterns) > 0 {
		return chooseMatching(n, files, patterns)
	}
	weights := []string{weightsFile}
	if _, whole := byName[weightsFile]; !whole && index != nil {
		var err error
		if weights, err = shardsOf(index); err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
		weights = append(weights, indexFile)
	} else if _, adapted := byName[adapterFile]; !whole && adapted {
		weights = []string{adapterFile}
	}
	for _, name := range weights {
		f, ok := byName[name]
		if !ok {
			return nil, noWeights(n, files, name)
		}
		out = append(out, f)
	}
	return out, nil
}

// chooseMatching returns the files that match a pattern, with the small files unless all matching files are GGUF files, which
// contain everything.
func chooseMatching(n Name, files []file, patterns []string) ([]file, error) {
	var out []file
	gguf := true
	for _, f := range files {
		if matches(f.name, patterns) {
			if slices.Contains(pickled, path.Ext(f.name)) {
				return nil, errext.With(errext.Model, "include .safetensors or .gguf files", fmt.Errorf("%s: %s is a pickle, which can execute code when it is read", n, f.name))
			}
			out = append(out, f)
			gguf = gguf && path.Ext(f.name) == ".gguf"
		}
	}
	if len(out) == 0 {
		return nil, errext.With(errext.Model, "it has "+namesOf(files), fmt.Errorf("%s has no file %s", n.ID, strings.Join(patterns, ", ")))
	}
	if !gguf {
		for _, f := range files {
			if matches(f.name, smallFiles) && !matches(f.name, patterns) {
				out = append(out, f)
			}
		}
	}
	return out, nil
}

// matches reports whether a name matches a pattern of path.Match.
func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

// noWeights returns the error of a repository that lacks a file of weights.
func noWeights(n Name, files []file, missing string) error {
	var gguf, pickles []file
	for _, f := range files {
		switch ext := path.Ext(f.name); {
		case ext == ".gguf":
			gguf = append(gguf, f)
		case slices.Contains(pickled, ext):
			pickles = append(pickles, f)
		}
	}
	switch {
	case len(gguf) > 0:
		return errext.With(errext.Model, "choose one: "+Name{n.ID, gguf[0].name, n.Revision}.String(), fmt.Errorf("%s has no %s, but GGUF files: %s", n, missing, namesOf(gguf)))
	case len(pickles) > 0:
		return errext.With(errext.Model, "use a repository or a revision with safetensors",
			fmt.Errorf("%s has its weights only as pickles (%s), which can execute code when they are read", n, namesOf(pickles)))
	}
	return errext.With(errext.Model, "give a model with weights as safetensors or GGUF", fmt.Errorf("%s has no %s; its files: %s", n, missing, namesOf(files)))
}

// namesOf lists the names of files. It abbreviates long lists.
func namesOf(files []file) string {
	const most = 8
	var names []string
	for _, f := range files[:min(most, len(files))] {
		names = append(names, f.name)
	}
	if more := len(files) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
