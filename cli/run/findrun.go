package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/algo/report"
	"github.com/openmanus/openmanus/internal/errext"
)

// FindRun returns the path of the run folder with this path, or with this name in the default trainer.output_dir.
func FindRun(h *Host, name string) (string, error) {
	for _, dir := range []string{name, filepath.Join(defaultRuns(), name)} {
		if report.IsRun(h.Path(dir)) {
			return dir, nil
		}
	}
	if _, err := h.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return "", errext.With(errext.Input, "give a run folder", cmp.Or(err, fmt.Errorf("%s is not a run folder: it has neither metrics.jsonl nor config.toml", name)))
	}
	return "", errext.With(errext.Input, runsHint(h, name), noRun(name))
}

// missingError is the error of a path that does not exist.
type missingError string

func (e missingError) Error() string { return string(e) }

// noRun returns the error of a path that does not exist and may be meant as that of a run.
func noRun(path string) error {
	if inDefaultRuns(path) {
		return missingError("there is no run " + path)
	}
	return missingError(path + " does not exist")
}

func defaultRuns() string { return Schema.Defaults().Trainer.OutputDir }

// namesRun reports whether a path that does not exist can only be meant as that of a run: it is below the default
// trainer.output_dir or beside a run.
func namesRun(h *Host, path string) bool {
	dir := filepath.Dir(filepath.Clean(path))
	return inDefaultRuns(path) || dir != "." && slices.ContainsFunc(runsIn(h, dir), func(name string) bool {
		return isRun(h, filepath.Join(dir, name)) // a config.toml alone can be of another program
	})
}

// inDefaultRuns reports whether a path is below the default trainer.output_dir.
func inDefaultRuns(path string) bool {
	return strings.HasPrefix(filepath.Clean(path), defaultRuns()+string(filepath.Separator))
}

// runsIn returns the names of the run folders in dir, which may be missing.
func runsIn(h *Host, dir string) []string {
	entries, _ := os.ReadDir(h.Path(dir)) // a folder that cannot be read has no runs to propose
	var names []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if report.IsRun(h.Path(path)) || isRun(h, path) {
			names = append(names, e.Name())
		}
	}
	return names
}

// runsHint names the runs beside the path of a missing run, or those in the default trainer.output_dir.
func runsHint(h *Host, path string) string {
	dir := filepath.Dir(filepath.Clean(path))
	names := runsIn(h, dir)
	if dir == "." || len(names) == 0 {
		dir = defaultRuns()
		names = runsIn(h, dir)
	}
	if len(names) == 0 {
		return "the folder " + dir + " has no runs; give the path of a run folder"
	}
	command := "openmanus runs"
	if dir != defaultRuns() {
		command += " " + errext.ShellQuote(dir)
	}
	return "`" + command + "` lists the runs: " + abbreviated(names)
}

// abbreviated joins names for a message.
func abbreviated(names []string) string {
	const most = 8
	if more := len(names) - most; more > 0 {
		names = append(names[:most:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
