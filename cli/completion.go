package cli

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/internal/errext"
)

// completionFlag is the last argument of a command line to be completed. It is the flag of urfave/cli, whose own completion
// does not know the arrangement of arguments (see arrange).
const completionFlag = "--generate-bash-completion"

// The scripts of the shells call the program with the words so far, the word to complete, which may be empty, and completionFlag.
//
//go:embed completion/openmanus.bash
var bashScript string

//go:embed completion/openmanus.zsh
var zshScript string

//go:embed completion/openmanus.fish
var fishScript string

func completionCommand(s *State) *cli.Command {
	scripts := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	shells := []string{"bash", "zsh", "fish"}
	return leaf(s, &cli.Command{
		Name:      "completion",
		Usage:     "print the script that completes commands and flags in a shell",
		ArgsUsage: strings.Join(shells, "|"),
	}, 1, 1, func(_ context.Context, s *State, c *cli.Context) error {
		script, ok := scripts[c.Args().First()]
		if !ok {
			return unknown("shell", c.Args().First(), shells)
		}
		return s.print([]byte(script))
	})
}

func manCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:  "man",
		Usage: "print the manual page",
	}, 0, 0, func(_ context.Context, s *State, c *cli.Context) error {
		page, err := c.App.ToManWithSection(1)
		if err != nil {
			return fmt.Errorf("write the manual page: %w", err)
		}
		// The title of the library lacks the version and has no capitals.
		title := fmt.Sprintf(".TH \"OPENMANUS\" \"1\" \"\" \"openmanus %s\"\n", Version)
		return s.print([]byte(strings.Replace(page, ".TH openmanus 1\n", title, 1)))
	})
}

// complete prints the words that can end a command line, one per line with its description behind a tab. The last of words is
// the word to complete. It prints nothing for the value of a flag, which may be a file, and the shell completes files.
func (s *State) complete(app *cli.App, words []string) error {
	cmds, flags := app.Commands, app.Flags
	arguments := false // of a command, which may be files
	var current string
	if n := len(words); n > 0 {
		current, words = words[n-1], words[:n-1]
	}
	for _, w := range words {
		at := slices.IndexFunc(cmds, func(c *cli.Command) bool { return c.HasName(w) })
		switch {
		case at >= 0:
			cmds, flags = cmds[at].Subcommands, cmds[at].Flags
		case !strings.HasPrefix(w, "-"):
			arguments = true
		}
	}
	var b strings.Builder
	if len(words) > 0 && slices.ContainsFunc(flags, func(f cli.Flag) bool {
		name, ok := strings.CutPrefix(words[len(words)-1], "--")
		return ok && slices.Contains(f.Names(), name) && f.(cli.DocGenerationFlag).TakesValue()
	}) {
		return nil
	}
	if strings.HasPrefix(current, "-") {
		for _, f := range flags {
			describe := f.(cli.DocGenerationFlag).GetUsage()
			for _, name := range f.Names() {
				if name = "--" + name; len(name) > 3 && strings.HasPrefix(name, current) {
					fmt.Fprintf(&b, "%s\t%s\n", name, describe)
				}
			}
		}
	} else if !arguments {
		for _, c := range cmds {
			fmt.Fprintf(&b, "%s\t%s\n", c.Name, c.Usage)
		}
	}
	return errext.With(errext.Disk, "", s.print([]byte(b.String())))
}
