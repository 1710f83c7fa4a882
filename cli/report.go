package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/algo/report"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/data/view"
	"github.com/openmanus/openmanus/internal/errext"
)

func reportCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "report",
		Usage:     "show the curves, validations and settings of runs as a page, or as text",
		ArgsUsage: "RUN...",
		Description: "RUN is a run folder, or its name in the folder runs. A run that is still training can be read too.\n" +
			"With --html the page needs no other file, except for the episodes: a second page NAME-episodes.html\n" +
			"holds episodes of the first, a middle and the last step and of the last validation of each run.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "html", Usage: "write the page to `FILE`"},
			&cli.IntFlag{Name: "episodes", Value: 60, Usage: "maximal number of episodes on the page of episodes; 0: no such page"},
			&cli.StringFlag{Name: "tokenizer", Usage: "`MODEL` whose tokenizer shows the tokens of the episodes; default: the newest checkpoint of the first run"},
			&cli.BoolFlag{Name: "force", Usage: "replace the pages if they exist"},
			jsonFlag(),
		},
	}, 1, anyNumber, runReport)
}

// reportOptions holds the command line of `openmanus report`.
type reportOptions struct {
	HTML      string
	Episodes  int
	Tokenizer string
	Force     bool
}

func runReport(ctx context.Context, s *State, c *cli.Context) error {
	o := reportOptions{HTML: c.String("html"), Episodes: c.Int("episodes"), Tokenizer: c.String("tokenizer"), Force: c.Bool("force")}
	var f flagFaults
	f.atLeast("episodes", o.Episodes, 0)
	if o.HTML == "" {
		for _, flag := range []string{"episodes", "tokenizer", "force"} {
			if c.IsSet(flag) {
				f.add(flag, "only used with --html: add --html, or remove this flag")
			}
		}
	}
	if err := f.err(); err != nil {
		return err
	}
	runs, err := s.openRuns(c.Args().Slice())
	if err != nil {
		return err
	}
	if o.HTML != "" {
		if err := s.reportPages(ctx, o, runs); err != nil {
			return err
		}
		if !c.Bool("json") {
			return s.print(fmt.Appendf(nil, "%s\n", o.HTML))
		}
	}
	var all []report.Summary
	var text strings.Builder
	for i, r := range runs {
		all = append(all, report.Summarize(r))
		if i > 0 {
			text.WriteString("\n")
		}
		text.WriteString(all[i].Text(s.Now()))
	}
	return s.printWrapped(map[string]any{"runs": all}, text.String(), c.Bool("json"))
}

// openRuns reads the run folders with these paths or names.
func (s *State) openRuns(names []string) ([]*report.Run, error) {
	var runs []*report.Run
	for _, name := range names {
		dir, err := run.FindRun(&s.Host, name)
		if err != nil {
			return nil, err
		}
		r, err := report.Open(s.Path(dir))
		if err != nil {
			return nil, errext.With(errext.Input, "", err)
		}
		runs = append(runs, r)
	}
	distinguish(runs)
	return runs, nil
}

// distinguish adds the parent folder to the names of runs that are equal.
func distinguish(runs []*report.Run) {
	times := map[string]int{}
	for _, r := range runs {
		times[r.Name]++
	}
	for _, r := range runs {
		if times[r.Name] > 1 {
			r.Name = filepath.Join(filepath.Base(filepath.Dir(filepath.Clean(r.Folder))), r.Name)
		}
	}
}

// reportPages writes the page of the runs and the page of their episodes.
func (s *State) reportPages(ctx context.Context, o reportOptions, runs []*report.Run) error {
	if err := s.CheckOutput(o.HTML, o.Force); err != nil {
		return err
	}
	version, err := s.version()
	if err != nil {
		return err
	}
	title := "openmanus: " + runs[0].Name
	if len(runs) > 1 {
		title = fmt.Sprintf("openmanus: %d runs", len(runs))
	}
	if o.Episodes > 0 {
		if err := s.episodePage(ctx, o, runs); err != nil {
			return err
		}
	}
	return s.WriteWith(o.HTML, o.Force, func(w io.Writer) error {
		return report.Write(w, runs, report.Options{
			Title: title, Now: s.Now(),
			Made: fmt.Sprintf("Written by openmanus %s on %s.", version.program(), s.Now().Format("2006-01-02 15:04 MST")),
		})
	})
}

// sampledFiles returns the files of a run's first, middle and last step and of its last
// validation, newest first.
func sampledFiles(r *report.Run) []string {
	var steps, validations []string
	for _, name := range r.Rollouts {
		if strings.HasPrefix(name, "val_") {
			validations = append(validations, name)
		} else if _, ok := rundir.RolloutStep(name); ok {
			steps = append(steps, name)
		}
	}
	var out []string
	if n := len(validations); n > 0 {
		out = append(out, validations[n-1])
	}
	if n := len(steps); n > 0 {
		out = append(out, steps[n-1])
		if n > 2 {
			out = append(out, steps[n/2])
		}
		if n > 1 {
			out = append(out, steps[0])
		}
	}
	return out
}

// episodePage writes a page with episodes of the runs beside the report, and adds links to
// them to the runs. It writes nothing if the runs have kept no episodes.
func (s *State) episodePage(ctx context.Context, o reportOptions, runs []*report.Run) error {
	path := strings.TrimSuffix(o.HTML, filepath.Ext(o.HTML)) + "-episodes.html"
	var files []string
	of := map[string]*report.Run{}
	for _, r := range runs {
		for _, name := range sampledFiles(r) {
			file := filepath.Join((&rundir.Folder{Dir: r.Folder}).Rollouts(), name)
			files, of[file] = append(files, file), r
		}
	}
	if len(files) == 0 {
		return nil
	}
	if err := s.CheckOutput(path, o.Force); err != nil {
		return err
	}
	pieces, err := s.piecesFor(viewOptions{Path: runs[0].Folder, Tokenizer: o.Tokenizer}, files)
	if err != nil {
		return err
	}
	each := max(1, o.Episodes/len(files))
	return s.WriteWith(path, o.Force, func(w io.Writer) error {
		page, err := view.NewPage(w, view.Options{Title: "episodes", Note: fmt.Sprintf("At most %d episodes of each file", each), Pieces: pieces})
		if err != nil {
			return err
		}
		nr := 0
		for _, file := range files {
			r, source := of[file], filepath.Base(file)
			if len(runs) > 1 {
				source = r.Name + "/" + source
			}
			first, n, solved := nr, 0, 0
			_, err := table.ReadSource(ctx, file, func(e *table.Entry) error {
				if e.Episode == nil {
					return fmt.Errorf("%s is not a dump of episodes", file)
				}
				if n == each {
					return errEnoughRows
				}
				n, nr = n+1, nr+1
				if e.Episode.Outcome == data.Success {
					solved++
				}
				return page.Add(source, e.N, e.Episode)
			})
			if err != nil && !errors.Is(err, errEnoughRows) {
				return errext.WithDefault(errext.Input, err)
			}
			if n > 0 {
				r.Episodes = append(r.Episodes, report.EpisodeLink{
					Label: view.Origin(filepath.Base(file)), Href: fmt.Sprintf("%s#e%d", filepath.Base(path), first), Note: fmt.Sprintf("%d shown, %d solved", n, solved),
				})
			}
		}
		return page.Close()
	})
}
