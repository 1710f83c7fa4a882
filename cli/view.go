package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/data/view"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/textwidth"
)

func viewCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "view",
		Usage:     "show played episodes as a page or as text",
		ArgsUsage: "FILE|RUN",
		Description: "FILE is a dump of rollout or a file of a run's rollouts folder. RUN is a run folder, whose newest steps\n" +
			"come first. Without --html and --text each episode is one line.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "html", Usage: "write one self-contained page to `FILE`"},
			&cli.BoolFlag{Name: "text", Usage: "print whole episodes"},
			&cli.IntFlag{Name: "episode", Value: -1, Usage: "show only the episode of this index, from 0"},
			&cli.IntFlag{Name: "step", Value: -1, Usage: "show only this training step of a RUN"},
			&cli.StringFlag{Name: "env", Usage: "show only the episodes of this environment"},
			&cli.StringFlag{Name: "outcome", Usage: "show only the episodes with this outcome"},
			&cli.IntFlag{Name: "max-episodes", Value: 1000, Usage: "maximal number of episodes"},
			&cli.StringFlag{Name: "tokenizer", Usage: "`MODEL` whose tokenizer shows the tokens on the page; default: the model that played, if it is found"},
			&cli.BoolFlag{Name: "force", Usage: "replace the page if it exists"},
		},
	}, 1, 1, runView)
}

// viewOptions holds the command line of `openmanus view`.
type viewOptions struct {
	Path      string
	HTML      string
	Text      bool
	Episode   int // index from 0; -1: all
	Step      int // training step; -1: all
	Env       string
	Outcome   data.Outcome
	Max       int
	Tokenizer string
	Force     bool
	Note      string // describes the selection on the page
}

// parseView reads the flags and the argument.
func parseView(c *cli.Context) (viewOptions, error) {
	o := viewOptions{
		Path: c.Args().First(), HTML: c.String("html"), Text: c.Bool("text"), Episode: c.Int("episode"), Step: c.Int("step"),
		Env: c.String("env"), Outcome: data.Outcome(c.String("outcome")), Max: c.Int("max-episodes"),
		Tokenizer: c.String("tokenizer"), Force: c.Bool("force"),
	}
	for _, flag := range []string{"step", "episode", "env", "outcome"} {
		if c.IsSet(flag) {
			o.Note += fmt.Sprintf("%s %v, ", flag, c.Value(flag))
		}
	}
	o.Note = fmt.Sprintf("Selection: %sat most %d episodes", o.Note, o.Max)
	var f flagFaults
	if o.HTML != "" && o.Text {
		f.add("text", "--html is given as well: remove one of them")
	}
	if o.HTML == "" && o.Tokenizer != "" {
		f.add("tokenizer", "only used with --html: add --html, or remove this flag")
	}
	f.atLeast("episode", o.Episode, -1)
	f.atLeast("step", o.Step, -1)
	f.atLeast("max-episodes", o.Max, 1)
	return o, f.err()
}

func (o *viewOptions) wants(row int, e *data.Episode) bool {
	return (o.Episode < 0 || row == o.Episode) && (o.Env == "" || e.Task.Env == o.Env || e.Task.Label == o.Env) && (o.Outcome == "" || e.Outcome == o.Outcome)
}

func runView(ctx context.Context, s *State, c *cli.Context) error {
	o, err := parseView(c)
	if err != nil {
		return err
	}
	if _, err := s.Stat(o.Path); errors.Is(err, fs.ErrNotExist) {
		if o.Path, err = run.FindRun(&s.Host, o.Path); err != nil {
			return err
		}
	}
	files, err := s.dumpsOf(o)
	if err != nil {
		return err
	}
	if o.HTML != "" {
		return s.viewPage(ctx, o, files)
	}
	out := bufio.NewWriter(s.Stdout)
	ofRun := len(files) != 1 || files[0] != o.Path
	header := view.ListHeader(ofRun)
	_, err = s.eachEpisode(ctx, o, files, func(file string, row int, e *data.Episode) error {
		origin := ""
		if ofRun {
			origin = view.Origin(file)
		}
		if o.Text {
			return view.Text(out, origin, row, e)
		}
		if header != "" {
			_, _ = out.WriteString(header) // out.Flush returns a write error
			header = ""
		}
		_, err := out.WriteString(view.ListLine(origin, row, e))
		return err
	})
	return errors.Join(err, errext.With(errext.Disk, "", out.Flush()))
}

// eachEpisode calls visit with the file and row of each selected episode and
// returns their number, which must not be 0. It warns if there are more than
// --max-episodes.
func (s *State) eachEpisode(ctx context.Context, o viewOptions, files []string, visit func(file string, row int, e *data.Episode) error) (n int, err error) {
	for _, file := range files {
		src, err := table.ReadSource(ctx, s.Path(file), func(e *table.Entry) error {
			if e.Episode == nil {
				return errext.With(errext.Input, "openmanus data head prints its rows", fmt.Errorf("%s is a data file, not a dump of episodes", file))
			}
			if !o.wants(e.N, e.Episode) {
				return nil
			}
			if n == o.Max {
				return errEnoughRows
			}
			n++
			return errext.With(errext.Disk, "", visit(filepath.Base(file), e.N, e.Episode))
		})
		if errors.Is(err, errEnoughRows) {
			s.Log.Warn("not all episodes are shown: select with --step, --env or --outcome, or raise --max-episodes", "shown", n)
			return n, nil
		}
		if err != nil {
			return n, errext.WithDefault(errext.Input, err)
		}
		if src.Torn {
			s.Log.Warn("the last line is incomplete and skipped", "file", file)
		}
	}
	if n == 0 {
		return 0, errext.With(errext.Input, "loosen --episode, --env or --outcome", errors.New("no episode matches"))
	}
	return n, nil
}

// viewPage writes the page atomically.
func (s *State) viewPage(ctx context.Context, o viewOptions, files []string) error {
	if err := s.CheckOutput(o.HTML, o.Force); err != nil {
		return err
	}
	pieces, err := s.piecesFor(o, files)
	if err != nil {
		return err
	}
	n := 0
	err = s.WriteWith(o.HTML, o.Force, func(w io.Writer) error {
		page, err := view.NewPage(w, view.Options{Title: "episodes of " + filepath.Base(s.Path(o.Path)), Note: o.Note, Pieces: pieces})
		if err != nil {
			return err
		}
		if n, err = s.eachEpisode(ctx, o, files, page.Add); err != nil {
			return err
		}
		return page.Close()
	})
	if err != nil {
		return err
	}
	return s.print(fmt.Appendf(nil, "%s: %s\n", o.HTML, textwidth.Count(n, "episode")))
}
