package cli

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/openmanus/openmanus/agent/llm/tokenizer"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

// dumpsOf returns the files to view: the file itself, or the files of a run,
// newest steps first, then validations.
func (s *State) dumpsOf(o viewOptions) ([]string, error) {
	st, err := s.Stat(o.Path)
	if err != nil {
		return nil, errext.With(errext.Input, "give a dump of episodes or a run's folder", err)
	}
	if !st.IsDir() {
		if o.Step >= 0 {
			return nil, usagef("--step selects a step of a run, but %s is a file: remove the flag", o.Path)
		}
		return []string{o.Path}, nil
	}
	folder := (&rundir.Folder{Dir: o.Path}).Rollouts()
	names, err := fs.Glob(s.DirFS(folder), "*.jsonl*")
	if err != nil {
		return nil, errext.With(errext.Input, "", err)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(stepOf(b)-stepOf(a), strings.Compare(a, b))
	})
	var files []string
	for _, name := range names {
		if o.Step < 0 || stepOf(name) == o.Step {
			files = append(files, filepath.Join(folder, name))
		}
	}
	switch {
	case len(names) == 0:
		return nil, errext.With(errext.Input, "give a run's folder, such as runs/quickstart, or a dump", fmt.Errorf("%s has no rollouts/step_N.jsonl", o.Path))
	case len(files) == 0:
		return nil, errext.With(errext.Input, "available: "+steps(names), fmt.Errorf("%s has no episodes of step %d", o.Path, o.Step))
	case o.Episode >= 0 && len(files) > 1:
		return nil, usagef("--episode selects an episode of one file, but %s has %d files: add --step, or give one file of the rollouts folder", o.Path, len(files))
	}
	return files, nil
}

// stepOf returns the number N in the file name step_N.jsonl, or -1 for other names.
func stepOf(name string) int {
	digits, ok := strings.CutPrefix(name, "step_")
	digits, _, _ = strings.Cut(digits, ".")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 {
		return -1
	}
	return n
}

func steps(names []string) string {
	var all []int
	for _, name := range names {
		if n := stepOf(name); n >= 0 {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return "only validations"
	}
	return "steps " + run.FormatIndices(all)
}

// piecesFor returns a function that splits the text of tokens with the tokenizer
// of the model that played, or nil if there is no tokenizer.
func (s *State) piecesFor(o viewOptions, files []string) (func([]int32) []string, error) {
	if o.Tokenizer != "" {
		tok, _, err := s.openTokenizer(o.Tokenizer)
		if err != nil {
			return nil, err
		}
		return piecesOf(tok), nil
	}
	for _, path := range s.likelyTokenizers(o, files) {
		if _, err := s.Stat(path); err != nil {
			continue
		}
		tok, _, err := s.openTokenizer(path)
		if err != nil {
			s.Log.Warn("the tokenizer cannot be read: tokens are shown as ids; give --tokenizer", "error", err)
			return nil, nil
		}
		s.Log.Info("using a tokenizer for the texts of tokens", "model", path)
		return piecesOf(tok), nil
	}
	s.Log.Warn("the tokenizer of the model that played was not found: tokens are shown as ids; give --tokenizer")
	return nil, nil
}

// likelyTokenizers returns the paths of models that may have played: the newest
// checkpoint of the run, then the model in the dump's header.
func (s *State) likelyTokenizers(o viewOptions, files []string) []string {
	folder := &rundir.Folder{Dir: o.Path}
	if len(files) == 1 && files[0] == o.Path { // a single dump, which may be in the folder of a run
		folder.Dir = filepath.Dir(filepath.Dir(o.Path))
	}
	var out []string
	checkpoints, err := fs.Glob(s.DirFS(folder.Checkpoints()), "step_*/"+rundir.ActorFolder)
	if err == nil && len(checkpoints) > 0 {
		out = append(out, filepath.Join(folder.Checkpoints(), slices.Max(checkpoints)))
	}
	if dump, err := dump.Open(s.Path(files[0])); err == nil {
		if path := run.RecordedModel(dump.Header()); path != "" {
			out = append(out, path)
		}
		_ = dump.Close()
	}
	return out
}

func piecesOf(tok *tokenizer.Tokenizer) func([]int32) []string {
	return func(ids []int32) []string {
		out := make([]string, len(ids))
		stream := tok.Stream(false)
		for i, id := range ids {
			out[i] = stream.Next(id)
		}
		if len(out) > 0 {
			out[len(out)-1] += stream.Flush()
		}
		return out
	}
}
