package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/data/view"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/internal/textwidth"
)

func dataCommand(s *State) *cli.Command {
	return group("data", "inspect and convert data files",
		leaf(s, &cli.Command{
			Name: "info", Usage: "describe files and the tasks that they share", ArgsUsage: "FILE...",
			Description: dataFormats + "\nDo not evaluate on tasks of the training files: the result would be too good.",
			Flags:       []cli.Flag{dataEnvFlag(unnamedEnv), jsonFlag()},
		}, 1, anyNumber, dataInfo),
		leaf(s, &cli.Command{
			Name: "head", Usage: "print the first rows of a file", ArgsUsage: "FILE", Description: dataFormats,
			Flags: []cli.Flag{
				&cli.IntFlag{Name: "n", Value: 3, Usage: "number of rows"},
				&cli.BoolFlag{Name: "full", Usage: "do not shorten texts"},
				dataEnvFlag(unnamedEnv),
				&cli.BoolFlag{Name: "json", Usage: "print one JSON object per row"},
			},
		}, 1, 1, dataHead),
		dataConvertCommand(s),
	)
}

const dataFormats = "Reads OpenManus-RL's parquet, AgentTraj and chat records (JSON lines or one array) and dumps of rollout,\n" +
	"detected by content; text may be compressed with zstd."

func dataEnvFlag(usage string) cli.Flag { return &cli.StringFlag{Name: "env", Usage: usage} }

const unnamedEnv = "environment `NAME` of the rows that name no environment"

// dataReport is the output of `openmanus data info --json`.
type dataReport struct {
	Files  []*table.FileInfo `json:"files"`
	Shared []sharedTasks     `json:"shared"`
}

// sharedTasks holds the tasks that two files have in common.
type sharedTasks struct {
	File string `json:"file"`
	With string `json:"with"`
	data.Overlap
}

func dataInfo(ctx context.Context, s *State, c *cli.Context) error {
	r := dataReport{Shared: []sharedTasks{}}
	for _, file := range c.Args().Slice() {
		info, err := table.Inspect(ctx, s.Path(file), c.String("env"))
		if err != nil {
			return errext.With(errext.Input, "", err)
		}
		info.Path = file
		for _, other := range r.Files {
			for _, o := range data.Shared(other.Tasks, info.Tasks) {
				r.Shared = append(r.Shared, sharedTasks{file, other.Path, o})
			}
		}
		r.Files = append(r.Files, info)
	}
	return s.printWrapped(r, r.text(), c.Bool("json"))
}

func (r *dataReport) text() string {
	var b strings.Builder
	for _, f := range r.Files {
		writeInfo(&b, f)
	}
	for _, o := range r.Shared {
		fmt.Fprintf(&b, "leak: %s shares %d of its %d %s tasks with %s, %s: %s\n",
			o.File, len(o.Indices), o.Tasks, o.Env, o.With, textwidth.Count(o.Rows, "row"), run.FormatIndices(o.Indices))
	}
	if len(r.Shared) > 0 {
		b.WriteString("Do not train on one file and evaluate on the other:\nopenmanus data convert --exclude removes tasks.\n")
	} else if len(r.Files) > 1 {
		b.WriteString("the files share no task\n")
	}
	return b.String()
}

func writeInfo(b *strings.Builder, f *table.FileInfo) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(b, f.Path)
	compressed := ""
	if f.Compressed {
		compressed = ", compressed"
	}
	line("format", "%s, %s MB%s", f.Format, short(float64(f.Bytes)/1e6), compressed)
	line("rows", "%d, %d with a conversation", f.Rows, f.Conversations)
	for _, e := range f.Envs {
		text := textwidth.Count(e.Rows, "row") + ", " + textwidth.Count(e.Tasks, "task")
		if e.Tasks > 0 {
			text += fmt.Sprintf(", index %d - %d", e.MinIndex, e.MaxIndex)
		}
		if e.Unindexed > 0 {
			text += fmt.Sprintf(", %d rows without a task index", e.Unindexed)
		}
		line(cmp.Or(e.Env, "?"), "%s", text)
	}
	if f.Conversations > 0 {
		line("messages", "%s; %d replies, %d to train on", rangeText(f.Messages), f.Replies, f.Learned)
		line("characters", "%s", rangeText(f.Chars))
	}
	if len(f.Others) > 0 {
		line("not read", "columns %s", strings.Join(f.Others, ", "))
	}
	d := f.Dump
	if d == nil {
		return
	}
	line("weights", "%s", cmp.Or(d.Weights, "unknown"))
	line("outcomes", "%s", eval.Tally(d.Outcomes))
	if d.Reward.Count > 0 {
		line("success", "%.3f of %d episodes without failures of the infrastructure", float64(d.Outcomes[data.Success])/float64(d.Reward.Count), d.Reward.Count)
		line("reward", "%s", rangeText(d.Reward))
		line("turns", "%s", rangeText(d.Turns))
		line("tokens", "%s; %d sampled", rangeText(d.Tokens), d.Sampled)
	}
	if d.Torn {
		line("torn", "the last line is incomplete and was skipped")
	}
}

func rangeText(r table.Range) string {
	return fmt.Sprintf("%s - %s, mean %s", short(r.Min), short(r.Max), short(r.Mean))
}

// short formats a number with few digits.
func short(x float64) string {
	if x == float64(int64(x)) {
		return strconv.FormatInt(int64(x), 10)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// headRow is the output of `openmanus data head --json` for a row.
type headRow struct {
	Row          int            `json:"row"`
	Line         int            `json:"line,omitempty"`
	ID           string         `json:"id"`
	Env          string         `json:"env"`
	Index        *int           `json:"index"` // null if unknown
	Prompt       []data.Message `json:"prompt,omitempty"`
	Conversation []data.Message `json:"conversation"`
	Outcome      data.Outcome   `json:"outcome,omitempty"`
	Reward       *float64       `json:"reward,omitempty"`
	Turns        int            `json:"turns,omitempty"`
	Tokens       int            `json:"tokens,omitempty"`
}

func dataHead(ctx context.Context, s *State, c *cli.Context) error {
	f := flagFaults{}
	f.atLeast("n", c.Int("n"), 1)
	if err := f.err(); err != nil {
		return err
	}
	file := s.Path(c.Args().First())
	shown := 0
	_, err := table.ReadSource(ctx, file, func(e *table.Entry) error {
		task, err := e.Task(c.String("env"))
		if err != nil {
			return errext.With(errext.Input, "", fmt.Errorf("%s: %s: %w", file, e.Where(), err))
		}
		row := headRow{Row: e.N, Line: e.Line, ID: task.ID, Env: task.Env, Prompt: task.Prompt, Conversation: task.Conversation}
		if task.Index != data.NoIndex {
			row.Index = &task.Index
		}
		if ep := e.Episode; ep != nil {
			row.Outcome, row.Reward, row.Turns, row.Tokens = ep.Outcome, &ep.Reward, len(ep.Turns), len(ep.Tokens)
		}
		err = s.printResult(row, row.text(c.Bool("full")), c.Bool("json"))
		if shown++; err == nil && shown == c.Int("n") {
			return errEnoughRows
		}
		return err
	})
	switch {
	case errors.Is(err, errEnoughRows):
		return nil
	case err == nil && shown == 0:
		return errext.With(errext.Input, "", fmt.Errorf("%s has no rows", file))
	}
	return errext.WithDefault(errext.Input, err)
}

func (r *headRow) text(full bool) string {
	var b strings.Builder
	index := "no index"
	if r.Index != nil {
		index = fmt.Sprintf("index %d", *r.Index)
	}
	fmt.Fprintf(&b, "row %d: %s (%s, %s)", r.Row, view.OneLine(r.ID, 0), view.OneLine(r.Env, 0), index)
	if r.Reward != nil {
		fmt.Fprintf(&b, ", %s, reward %g, %d turns, %d tokens", view.OneLine(string(r.Outcome), 0), *r.Reward, r.Turns, r.Tokens)
	}
	fmt.Fprintf(&b, ", %d messages\n", len(r.Conversation))
	most := 100
	if full {
		most = 0
	}
	for _, m := range r.Conversation {
		note := ""
		if m.Loss != nil && !*m.Loss {
			note = " (not learned)"
		}
		fmt.Fprintf(&b, "  %-9s %s%s\n", m.Role, view.OneLine(m.Content, most), note)
	}
	return b.String()
}

// errEnoughRows stops reading a file after the requested rows.
var errEnoughRows = errors.New("enough rows")
