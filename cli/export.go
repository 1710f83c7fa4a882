package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/algo/report"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/textwidth"
)

func exportCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "export",
		Usage:     "convert the metrics of runs for TensorBoard, MLflow, W&B or a spreadsheet",
		ArgsUsage: "RUN [RUN ...]",
		Description: "RUN is a run folder, or its name in the folder runs. Its metrics.jsonl is written in the form of a value of\n" +
			"log.backends, into the run folder or below --out. mlflow sends to the server of MLFLOW_TRACKING_URI what it lacks. See docs/tracking.md.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "`FORM`: " + strings.Join(exportForms(), ", ")},
			&cli.StringFlag{Name: "out", Usage: "write to `DIR`/NAME of the run instead of the run folder"},
		},
	}, 1, anyNumber, runExport)
}

// exportForms returns the names of sinks that write another form of metrics.jsonl.
func exportForms() []string {
	var names []string
	for _, name := range track.Sinks.Names() {
		if open, err := track.Sinks.Lookup(name); err == nil && open != nil {
			names = append(names, name)
		}
	}
	return names
}

func runExport(ctx context.Context, s *State, c *cli.Context) error {
	to, out, forms := c.String("to"), c.String("out"), exportForms()
	switch {
	case to == "":
		return usagef("--to is missing: %s", strings.Join(forms, ", "))
	case !slices.Contains(forms, to):
		return unknown("form", to, forms)
	case to == "mlflow" && out != "":
		return usagef("--to mlflow writes no files: remove --out")
	}
	used := map[string]string{}
	for _, path := range c.Args().Slice() {
		name := filepath.Base(filepath.Clean(s.Path(path)))
		if other, ok := used[name]; ok && out != "" {
			return usagef("%s and %s have the same name below --out: export one of them to another folder", other, path)
		}
		used[name] = path
	}
	for _, path := range c.Args().Slice() {
		lines, folder, err := s.export(ctx, path, to, out)
		if err != nil {
			return fmt.Errorf("export %s: %w", path, err)
		}
		fmt.Fprintf(s.Stdout, "%s: %s to %s in %s\n", path, textwidth.Count(lines, "line"), to, folder)
	}
	return nil
}

// export writes the metrics of the run in a folder and returns their number of lines and the folder
// in which they were written.
func (s *State) export(ctx context.Context, path, to, out string) (lines int, folder string, err error) {
	if path, err = run.FindRun(&s.Host, path); err != nil {
		return 0, "", err
	}
	dir := &rundir.Folder{Dir: filepath.Clean(s.Path(path))}
	if _, err := s.Stat(dir.Metrics()); err != nil {
		return 0, "", errext.With(errext.Input, "the run has no metrics yet", err)
	}
	r, err := s.Tracked(dir)
	if err != nil {
		return 0, "", errext.With(errext.Input, "", err)
	}
	status, err := report.StatusOf(dir.Dir)
	if err != nil {
		return 0, "", errext.With(errext.Input, "", err)
	}
	r.Ended = func() track.End {
		return map[report.State]track.End{report.Running: track.Running, report.Interrupted: track.Interrupted, report.Failed: track.Failed}[status.State]
	}
	if folder = path; out != "" {
		folder = filepath.Join(out, r.Name)
		r.Folder = s.Path(folder)
	} else {
		lock, err := checkpoint.AcquireLock(r.Folder)
		if err != nil {
			return 0, "", errext.With(errext.Disk, "--out DIR exports a run that is training", err)
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
	}
	if lines, err = track.Export(ctx, r, to); to == "mlflow" {
		return lines, folder, errext.WithDefault(errext.Env, err)
	}
	return lines, folder, errext.WithDefault(errext.Disk, err)
}
