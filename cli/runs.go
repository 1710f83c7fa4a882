package cli

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/algo/report"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/textwidth"
)

// defaultRuns is the default of trainer.output_dir.
const defaultRuns = "runs"

func runsCommand(s *State) *cli.Command {
	compare := leaf(s, &cli.Command{
		Name:      "compare",
		Usage:     "compare the settings and the last validations of runs",
		ArgsUsage: "RUN RUN...",
		Description: "Each run is compared with the first, task by task, if both have kept the episodes of the validation.\n" +
			"The intervals are those of openmanus eval compare.",
		Flags: []cli.Flag{jsonFlag()},
	}, 2, anyNumber, runRunsCompare)
	return leaf(s, &cli.Command{
		Name:      "runs",
		Usage:     "list the runs of a folder, newest first",
		ArgsUsage: "[DIR]",
		Description: "DIR holds run folders; default: runs. States: running, finished, interrupted (the same command resumes\n" +
			"the run) and failed.",
		Flags:       []cli.Flag{jsonFlag()},
		Subcommands: []*cli.Command{compare},
	}, 0, 1, runRuns)
}

// listed is a run in the list.
type listed struct {
	report.Facts
	Bytes int64 `json:"bytes"`
}

func runRuns(_ context.Context, s *State, c *cli.Context) error {
	dir := cmp.Or(c.Args().First(), defaultRuns)
	_, err := s.Stat(dir)
	var entries []fs.DirEntry
	if err == nil {
		entries, err = fs.ReadDir(s.DirFS(dir), ".")
	}
	if err != nil {
		return errext.With(errext.Input, "give the folder that holds the run folders (trainer.output_dir)", err)
	}
	var runs []*report.Run
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !report.IsRun(s.Path(path)) {
			continue
		}
		r, err := report.Open(s.Path(path))
		if err != nil {
			s.Log.Warn("the run folder cannot be read", "folder", path, "error", err)
			continue
		}
		runs = append(runs, r)
	}
	if len(runs) == 0 {
		return errext.With(errext.Input, "give the folder that holds the run folders (trainer.output_dir)", fmt.Errorf("%s has no runs", dir))
	}
	slices.SortStableFunc(runs, func(a, b *report.Run) int { return b.Updated.Compare(a.Updated) })
	var rows []listed
	table := [][]string{{"name", "state", "step", "best at step", "size", "changed"}}
	for _, r := range runs {
		size, err := report.Size(r.Folder)
		if err != nil {
			return errext.With(errext.Disk, "", err)
		}
		f := report.FactsOf(r)
		rows = append(rows, listed{f, size})
		row := f.Row(s.Now())
		best := "-"
		if f.Best != nil {
			best = fmt.Sprintf("%.3f at %d", f.Best.Success, f.Best.Step)
		}
		table = append(table, []string{row.Name, row.State, row.Steps, best, bytesText(size), row.Updated})
	}
	return s.printWrapped(map[string]any{"runs": rows}, textwidth.Table("llrlrr", table), c.Bool("json"))
}

// bytesText formats a number of bytes with three digits.
func bytesText(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	v, i := float64(n), 0
	for v >= 1000 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %s", v, units[i])
}

func runRunsCompare(_ context.Context, s *State, c *cli.Context) error {
	runs, err := s.openRuns(c.Args().Slice())
	if err != nil {
		return err
	}
	compared, err := report.Compare(runs)
	if err != nil {
		return errext.With(errext.Input, "", err)
	}
	return s.printWrapped(compared, compared.String(), c.Bool("json"))
}
