package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs/hydra"
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/internal/errext"
)

// maxOverrides bounds the number of overrides.
const maxOverrides = 10000

func configImportCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "import",
		Usage:     "convert a command line of OpenManus-RL or verl to a configuration",
		ArgsUsage: "FILE|KEY=VALUE…",
		Description: "FILE is a script that ends in python3 -m verl.trainer.main_ppo key=value … (or the SFT trainer), or a\n" +
			"list of key=value; - is standard input. The script is read but not run: give values that only the\n" +
			"running script has after FILE, as NAME=VALUE of a shell variable or as key=value.\n" +
			"The configuration is written to standard output, and a report on every key to standard error.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "write the configuration to `FILE`, which must not exist"},
			&cli.BoolFlag{Name: "json", Usage: "print the report as one JSON document"},
			&cli.BoolFlag{Name: "no-defaults", Usage: "do not write upstream defaults that differ from ours"},
			&cli.BoolFlag{Name: "strict", Usage: "exit with code 3 if a key is unknown or not supported, or a value is unresolved"},
		},
	}, maxOverrides, configImport)
}

// shellName matches the name of a shell variable.
var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func configImport(_ context.Context, s *State, c *cli.Context) error {
	args := c.Args().Slice()
	if len(args) == 0 {
		return usagef("config import needs a FILE (- is standard input) or overrides such as trainer.total_epochs=15")
	}
	cmd, from, err := s.readHydra(args)
	if err != nil {
		return err
	}
	r := hydra.Import(cmd, hydra.Options{Schema: schema, From: from, Home: s.Getenv("HOME"), Defaults: !c.Bool("no-defaults")})
	if out := c.String("out"); out != "" {
		err := s.WriteFile(out, r.TOML, false)
		if errors.Is(err, fs.ErrExist) {
			return errext.With(errext.Usage, "choose another name", fmt.Errorf("%s exists", out))
		}
		if err != nil {
			return errext.With(errext.Disk, "give a path that can be written", err)
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
			return errext.With(errext.Input, "", fmt.Errorf("%d settings are not in the configuration as intended", n))
		case r.Faults != nil:
			return errext.With(errext.Input, "", errors.New("the configuration is not valid"))
		}
	}
	return nil
}

// readHydra reads a file and the arguments after it, or overrides alone.
func (s *State) readHydra(args []string) (hydra.Command, string, error) {
	if strings.Contains(args[0], "=") || strings.HasPrefix(args[0], "~") {
		return hydra.ReadWords(args), "the command line", nil
	}
	file := args[0]
	switch filepath.Ext(file) {
	case ".yaml", ".yml":
		return hydra.Command{}, "", errext.With(errext.Input, "give the script that overrides it, or a list of key=value lines", fmt.Errorf("%s: YAML files are not supported", file))
	case ".toml":
		return hydra.Command{}, "", errext.With(errext.Input, "check it with openmanus config check FILE", fmt.Errorf("%s is already a configuration", file))
	}
	text, err := s.ReadFile(file, maxConfig)
	if err != nil {
		return hydra.Command{}, "", errext.With(errext.Input, "give the path of a script, or overrides such as trainer.total_epochs=15", err)
	}
	var more []string
	vars := map[string]string{}
	names, err := hydra.Names(string(text))
	if err != nil {
		return hydra.Command{}, "", errext.With(errext.Input, "", fmt.Errorf("%s: %w", file, err))
	}
	for _, arg := range args[1:] {
		name, value, found := strings.Cut(arg, "=")
		isName := found && shellName.MatchString(name)
		if isName && names[name] {
			vars[name] = value
		}
		switch {
		case !isName, hydra.Known(name): // max_turns can be both
			more = append(more, arg)
		case !names[name]:
			return hydra.Command{}, "", errext.With(errext.Usage, readsInstead(name, names), fmt.Errorf("%s uses no variable %s, and no key has that name", file, name))
		}
	}
	cmd, err := hydra.ReadScript(string(text), vars, s.Getenv)
	if err != nil {
		return cmd, "", errext.With(errext.Input, "", fmt.Errorf("%s: %w", file, err))
	}
	after := hydra.ReadWords(more)
	cmd.Overrides = append(cmd.Overrides, after.Overrides...)
	cmd.Faults = append(cmd.Faults, after.Faults...)
	return cmd, filepath.Base(file), nil
}

// readsInstead returns a hint with the variables of a script.
func readsInstead(name string, names map[string]bool) string {
	all := slices.Sorted(maps.Keys(names))
	if near := registry.Nearest(name, all); near != "" {
		return "did you mean " + near + "?"
	}
	const most = 12
	switch {
	case len(all) == 0:
		return "the script uses no variables: give key=value"
	case len(all) > most:
		all = append(all[:most], "…")
	}
	return "variables of the script: " + printable(strings.Join(all, ", "))
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
	count := map[hydra.Status]int{}
	for _, row := range doubtfulLast(r.Rows) {
		status := string(row.Status)
		if row.Default {
			status = "default"
		} else {
			count[row.Status]++
		}
		said := strings.Join(row.To, ", ")
		if row.Note != "" {
			said = strings.TrimPrefix(said+": "+row.Note, ": ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", status, printable(row.Key+"="+row.Value), printable(said))
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
		len(r.Rows)-defaults(r.Rows), count[hydra.Mapped], count[hydra.Ignored], count[hydra.Unsupported], count[hydra.Open], count[hydra.Unknown])
	fmt.Fprintf(s.Stderr, "Read as a command line of %s: %s. Rows marked default are its settings for keys that the command line omits.\n", r.Source, printable(r.Why))
	if len(faults) > 0 {
		fmt.Fprintln(s.Stderr, "Fix these errors of the configuration:")
		for _, f := range faults {
			fmt.Fprintln(s.Stderr, "  "+printable(f))
		}
	}
	if text := leftOut(r.Rows); text != "" {
		fmt.Fprintln(s.Stderr, printable(text))
	}
	return nil
}

// doubts lists the statuses that need attention, the worst last.
var doubts = []hydra.Status{hydra.Open, hydra.Unsupported, hydra.Unknown}

// doubtfulLast sorts rows that need attention to the end, stably.
func doubtfulLast(rows []hydra.Row) []hydra.Row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b hydra.Row) int {
		return slices.Index(doubts, a.Status) - slices.Index(doubts, b.Status)
	})
	return rows
}

// leftOut returns a summary of the keys that are not in the configuration as
// intended, the worst first, or "".
func leftOut(rows []hydra.Row) string {
	var parts []string
	for _, status := range slices.Backward(doubts) {
		var keys []string
		for _, row := range rows {
			if row.Status == status {
				keys = append(keys, row.Key)
			}
		}
		const most = 5
		n := len(keys)
		if n > most {
			keys = append(keys[:most], "…")
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", n, status, strings.Join(keys, ", ")))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Not in the configuration as intended: " + strings.Join(parts, ", ") + "; see the last rows above."
}

func defaults(rows []hydra.Row) int {
	n := 0
	for _, row := range rows {
		if row.Default {
			n++
		}
	}
	return n
}

// printable replaces control characters in the text of a file and shortens it.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
	const most = 400
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
