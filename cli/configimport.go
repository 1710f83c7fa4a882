package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs/hydra"
	"github.com/openmanus/openmanus/data/view"
	"github.com/openmanus/openmanus/internal/errext"
)

func configImportCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "import",
		Usage:     "convert a command line of OpenManus-RL or verl to a configuration",
		ArgsUsage: "FILE|KEY=VALUE…",
		Description: "FILE is a script that ends in python3 -m verl.trainer.main_ppo key=value … (or the SFT trainer), or a\n" +
			"list of key=value; - is standard input. The script is read but not run. If a value is known only when\n" +
			"the script runs, give it after FILE, as NAME=VALUE of a shell variable or as key=value.\n" +
			"The configuration is written to standard output, and a report on every key to standard error.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "write the configuration to `FILE`, which must not exist"},
			&cli.BoolFlag{Name: "json", Usage: "print the report as one JSON document"},
			&cli.BoolFlag{Name: "no-defaults", Usage: "do not write upstream defaults that differ from the defaults of openmanus"},
			&cli.BoolFlag{Name: "strict", Usage: "exit with code 3 if a key is unknown or not supported, or a value is unresolved"},
		},
	}, 1, anyNumber, configImport)
}

// shellName matches the name of a shell variable.
var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func configImport(_ context.Context, s *State, c *cli.Context) error {
	args := c.Args().Slice()
	cmd, from, err := s.readHydra(args)
	if err != nil {
		return err
	}
	r := hydra.Import(cmd, hydra.Options{Schema: schema, From: from, Name: c.String("out"), Home: s.Getenv("HOME"), Defaults: !c.Bool("no-defaults")})
	if out := c.String("out"); out != "" {
		if err := s.writeConfig(out, r.TOML, false, "choose another name"); err != nil {
			return err
		}
	} else if err := s.print(r.TOML); err != nil {
		return err
	}
	if err := s.reportImport(r, c.Bool("json")); err != nil {
		return err
	}
	if c.Bool("strict") {
		switch n := r.Doubtful(); {
		case n > 0:
			return errext.With(errext.Input, "", fmt.Errorf("settings not converted as intended: %d", n))
		case r.Faults != nil:
			return errext.With(errext.Input, "", errors.New("the configuration is not valid"))
		}
	}
	return nil
}

// readHydra reads a script and the arguments after it, or overrides alone. It
// also returns the name of the source.
func (s *State) readHydra(args []string) (cmd hydra.Command, from string, err error) {
	if strings.Contains(args[0], "=") || strings.HasPrefix(args[0], "~") {
		return hydra.ReadWords(args), "the command line", nil
	}
	file := args[0]
	switch filepath.Ext(file) {
	case ".yaml", ".yml":
		return cmd, "", errext.With(errext.Input, "give the script that overrides the YAML file, or a list of key=value lines", fmt.Errorf("%s: YAML files are not supported", file))
	case ".toml":
		return cmd, "", errext.With(errext.Input, "check it with openmanus config check FILE", fmt.Errorf("%s is already a configuration", file))
	}
	text, err := s.ReadFile(file, maxConfig)
	if err != nil {
		return cmd, "", errext.With(errext.Input, "give the path of a script, or overrides such as trainer.total_epochs=15", err)
	}
	used, err := hydra.Names(string(text))
	if err != nil {
		return cmd, "", errext.With(errext.Input, "", fmt.Errorf("%s: %w", file, err))
	}
	var overrides []string
	vars := map[string]string{}
	for _, arg := range args[1:] {
		name, value, found := strings.Cut(arg, "=")
		isName := found && shellName.MatchString(name)
		if isName && used[name] {
			vars[name] = value
		}
		switch {
		case !isName, hydra.Known(name): // max_turns can be both a variable and a key
			overrides = append(overrides, arg)
		case !used[name]:
			return cmd, "", fmt.Errorf("%s: %w", file, unknown("variable", name, sortedKeys(used)))
		}
	}
	if cmd, err = hydra.ReadScript(string(text), vars, s.Getenv); err != nil {
		return cmd, "", errext.With(errext.Input, "", fmt.Errorf("%s: %w", file, err))
	}
	after := hydra.ReadWords(overrides)
	cmd.Overrides = append(cmd.Overrides, after.Overrides...)
	cmd.Faults = append(cmd.Faults, after.Faults...)
	return cmd, filepath.Base(file), nil
}

// reportImport prints how every key was converted.
func (s *State) reportImport(r hydra.Result, asJSON bool) error {
	var faults []string
	if r.Faults != nil {
		faults = strings.Split(r.Faults.Error(), "\n")
	}
	if asJSON {
		e := json.NewEncoder(s.Stderr)
		e.SetEscapeHTML(false)
		return errext.With(errext.Disk, "", e.Encode(struct {
			Keys   []hydra.Row `json:"keys"`
			Source string      `json:"source"`
			Why    string      `json:"source_because"`
			Words  []string    `json:"not_settings,omitempty"`
			Others []string    `json:"not_read,omitempty"`
			Faults []string    `json:"faults,omitempty"`
		}{r.Rows, r.Source, r.Why, r.Words, r.Others, faults}))
	}
	w := tabwriter.NewWriter(s.Stderr, 0, 0, 2, ' ', 0)
	given := 0
	keys := map[hydra.Status][]string{} // keys set on the command line
	rows := slices.Clone(r.Rows)
	slices.SortStableFunc(rows, func(a, b hydra.Row) int {
		return slices.Index(doubts, a.Status) - slices.Index(doubts, b.Status)
	})
	for _, row := range rows {
		status := string(row.Status)
		if row.Default {
			status = "default"
		} else {
			given++
			keys[row.Status] = append(keys[row.Status], row.Key)
		}
		result := strings.Join(row.To, ", ")
		if row.Note != "" {
			result = strings.TrimPrefix(result+": "+row.Note, ": ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", status, printable(row.Key+"="+row.Value), printable(result))
	}
	if err := w.Flush(); err != nil {
		return errext.With(errext.Disk, "", err)
	}
	for _, word := range r.Words {
		fmt.Fprintf(s.Stderr, "not a setting: %s\n", printable(word))
	}
	for _, other := range r.Others {
		fmt.Fprintf(s.Stderr, "not read: %s\n", printable(other))
	}
	fmt.Fprintf(s.Stderr, "\n%d keys: %d mapped, %d ignored, %d not supported, %d open, %d unknown.\n",
		given, len(keys[hydra.Mapped]), len(keys[hydra.Ignored]), len(keys[hydra.Unsupported]), len(keys[hydra.Open]), len(keys[hydra.Unknown]))
	fmt.Fprintf(s.Stderr, "Read as a command line of %s: %s. Rows marked default have the defaults of that program for keys that the command line omits.\n", r.Source, printable(r.Why))
	if len(faults) > 0 {
		fmt.Fprintln(s.Stderr, "Fix these errors of the configuration:")
		for _, f := range faults {
			fmt.Fprintln(s.Stderr, "  "+printable(f))
		}
	}
	var doubtful []string
	for _, status := range slices.Backward(doubts) {
		if k := keys[status]; len(k) > 0 {
			doubtful = append(doubtful, fmt.Sprintf("%d %s (%s)", len(k), status, view.OneLine(strings.Join(k, ", "), 200)))
		}
	}
	if len(doubtful) > 0 {
		fmt.Fprintf(s.Stderr, "Not converted as intended: %s; see the last rows above.\n", strings.Join(doubtful, ", "))
	}
	return nil
}

// doubts lists the statuses that need attention, from mild to severe. The report
// ends with the rows of these statuses.
var doubts = []hydra.Status{hydra.Open, hydra.Unsupported, hydra.Unknown}

// printable replaces control characters in the text of a file and shortens it.
func printable(text string) string { return view.OneLine(text, 400) }
