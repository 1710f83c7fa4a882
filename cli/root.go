package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/dashboard"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/internal/errext"
)

// Main runs the command line in s and returns the exit code.
func Main(s *State) (exit int) {
	st := *s
	s = &st
	s.terminal, s.Stderr = s.Stderr, s.newScreen()
	s.Log, s.Progress = newLogger(s, "info"), s.newProgress

	// Without recover the exit code would be 2, which means a wrong command line.
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(s.Stderr, "openmanus: internal error, please report it: %v\n%s", p, debug.Stack())
			exit = int(errext.Internal)
		}
	}()

	in, stop := s.watch(context.Background())
	defer stop()
	s.interrupts = in
	ctx := in.Soft

	app := newApp(s)
	var err error
	if n := len(s.Args); n > 1 && s.Args[n-1] == completionFlag {
		err = s.complete(app, s.Args[1:n-1])
	} else {
		err = app.RunContext(ctx, arrange(app, s.Args))
	}
	code := run.CodeOf(ctx, err)
	if err != nil && !s.quietly(err, code) {
		printError(s, s.named(err))
	}
	if ended, ok := errors.AsType[processError](err); ok {
		return ended.status
	}
	return int(code)
}

// command runs a command.
type command func(ctx context.Context, s *State, c *cli.Context) error

// commands returns the commands in the order of the help text.
func commands(s *State) []*cli.Command {
	return []*cli.Command{
		trainCommand(s),
		sftCommand(s),
		evalCommand(s),
		rolloutCommand(s),
		replayCommand(s),
		generateCommand(s),
		chatCommand(s),
		playCommand(s),
		scoreCommand(s),
		serveModelCommand(s),
		modelCommand(s),
		envCommand(s),
		rewardCommand(s),
		dataCommand(s),
		viewCommand(s),
		reportCommand(s),
		runsCommand(s),
		exportCommand(s),
		planCommand(s),
		configCommand(s),
		doctorCommand(s),
		cacheCommand(s),
		completionCommand(s),
		manCommand(s),
		versionCommand(s),
	}
}

func newApp(s *State) *cli.App {
	return &cli.App{
		Name:      "openmanus",
		Usage:     "train language-model agents by reinforcement learning",
		UsageText: "openmanus COMMAND [ARGUMENTS] [--FLAGS]",
		Commands:  commands(s),
		Reader:    s.Stdin,
		Writer:    s.Stdout,
		ErrWriter: s.Stderr,
		// In --set env.maze.tasks=0-3,7 the comma is part of the value.
		DisableSliceFlagSeparator: true,
		HideVersion:               true,
		HideHelp:                  true, // helpFlag replaces the help of the library
		// arrange replaces --version by the version command.
		Flags:          []cli.Flag{helpFlag(), &cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version"}},
		ExitErrHandler: func(*cli.Context, error) {}, // Main prints errors and exits
		OnUsageError:   usageError,
		Action:         needCommand,
	}
}

// anyNumber is the maxArgs of a command that takes any number of arguments.
const anyNumber = math.MaxInt

// leaf completes a command without subcommands: it adds the shared flags, sets up
// the logger, and checks the number of arguments.
func leaf(s *State, cmd *cli.Command, minArgs, maxArgs int, run command) *cli.Command {
	cmd.HideHelp = true
	cmd.OnUsageError = usageError
	cmd.Flags = append(cmd.Flags,
		&cli.StringFlag{Name: "log-level", Usage: "lowest level shown: debug, info, warn or error"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show errors only and no progress"},
		helpFlag())
	cmd.Action = func(c *cli.Context) error {
		switch n := c.NArg(); {
		case n < minArgs:
			name := strings.TrimPrefix(c.Command.HelpName, c.App.Name+" ")
			return usageError(c, fmt.Errorf("%s needs %s", name, cmd.ArgsUsage), false)
		case n > maxArgs:
			return usageError(c, fmt.Errorf("at most %d argument(s) are allowed, got %d: %s", maxArgs, n, strings.Join(c.Args().Slice(), " ")), false)
		}
		if err := s.applyLogFlags(c); err != nil {
			return err
		}
		return run(c.Context, s, c)
	}
	return cmd
}

// group returns a command that only has subcommands.
func group(name, usage string, subcommands ...*cli.Command) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, Subcommands: subcommands,
		HideHelp: true, Flags: []cli.Flag{helpFlag()}, OnUsageError: usageError, Action: needCommand,
	}
}

// helpFlag replaces the help flag of the library, a global variable that parsing changes.
func helpFlag() cli.Flag {
	return &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this text"}
}

// needCommand prints the help if the name of a command is missing. An unknown
// name is an error.
func needCommand(c *cli.Context) error {
	if !c.Args().Present() {
		if c.Command.Name == c.App.Name {
			return cli.ShowAppHelp(c)
		}
		return cli.ShowSubcommandHelp(c)
	}
	var names []string
	for _, cmd := range c.Command.Subcommands {
		names = append(names, cmd.Name)
	}
	return unknown("command", c.Args().First(), names)
}

// unknown returns the usage error of a name that is not in the list
// known. The parameter noun is the kind of the name.
func unknown(noun, name string, known []string) error {
	hint := noun + "s: " + strings.Join(known, ", ")
	if near := registry.Nearest(name, known); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return errext.With(errext.Usage, hint, fmt.Errorf("unknown %s %q", noun, name))
}

func usageError(c *cli.Context, err error, _ bool) error {
	hint := "see " + c.Command.HelpName + " --help"
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		err = fmt.Errorf("unknown flag --%s", name)
		if near := nearestFlag(name, c.Command.Flags); near != "" {
			hint = "did you mean --" + near + "? " + hint
		}
	}
	return errext.With(errext.Usage, hint, usagef("%s", singleDash.ReplaceAllString(err.Error(), "$1 --$2")))
}

// singleDash matches a long flag with one hyphen in an error of package flag.
var singleDash = regexp.MustCompile(`( for flag| for|argument:) -([a-z][a-z-]+)`)

// nearestFlag returns the long flag name closest to an unknown one, or "" if none
// is close.
func nearestFlag(name string, flags []cli.Flag) string {
	if len(name) < 2 { // every one-letter name is close to every other
		return ""
	}
	var names []string
	for _, f := range flags {
		for _, n := range f.Names() {
			if len(n) > 1 {
				names = append(names, n)
			}
		}
	}
	return registry.Nearest(name, names)
}

// arrange moves flags before the arguments of their command, since the flag
// parser stops at the first argument, as in `train run.toml --set a=b`. It also
// turns `help train` into `train --help`, and `--version` into `version`.
func arrange(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return []string{app.Name}
	}
	cmds := app.Commands
	i := 1
	if len(args) > 1 && slices.Contains([]string{"--version", "-version", "-v"}, args[1]) {
		args = slices.Concat(args[:1], []string{"version"}, args[2:])
	}
	var cmd *cli.Command
	for ; i < len(args); i++ {
		at := slices.IndexFunc(cmds, func(c *cli.Command) bool { return c.HasName(args[i]) })
		if at < 0 {
			if args[i] == "help" && (cmd == nil || len(cmds) > 0) {
				return arrange(app, slices.Concat(args[:i], args[i+1:], []string{"--help"}))
			}
			break
		}
		cmd, cmds = cmds[at], cmds[at].Subcommands
	}
	if cmd == nil || len(cmds) > 0 && len(cmd.Flags) == 1 { // a group has only the help flag
		return args
	}
	valued, optional := map[string]bool{}, map[string]bool{}
	for _, f := range cmd.Flags {
		_, isBool := f.(*cli.BoolFlag)
		if g, ok := f.(*cli.GenericFlag); ok {
			_, isBool = g.Value.(interface{ IsBoolFlag() bool })
			optional[g.Name] = isBool
		}
		for _, n := range f.Names() {
			valued[n] = !isBool
		}
	}
	var flags, rest []string
	help := false
	for tail := args[i:]; len(tail) > 0; tail = tail[1:] {
		arg := tail[0]
		if arg == "--" {
			rest = append(rest, tail[1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		if optional[strings.TrimLeft(arg, "-")] && len(tail) > 1 && isAddr(tail[1]) {
			arg += "=" + tail[1]
			tail = tail[1:]
		}
		flags = append(flags, arg)
		help = help || slices.Contains([]string{"help", "h"}, strings.TrimLeft(arg, "-"))
		if valued[strings.TrimLeft(arg, "-")] {
			if len(tail) == 1 {
				return slices.Concat(args[:i], flags) // the flag parser reports the missing value
			}
			flags = append(flags, tail[1])
			tail = tail[1:]
		}
	}
	if help { // the library would take the first argument for the name of a command
		rest = nil
	}
	return slices.Concat(args[:i], flags, []string{"--"}, rest)
}

// usagef returns an error about the command line.
func usagef(format string, args ...any) error {
	return errext.With(errext.Usage, "", fmt.Errorf(format, args...))
}

// printError prints an error. Each of its lines starts with the name of the program.
func printError(s *State, err error) {
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		fmt.Fprintf(s.Stderr, "openmanus: %s\n", line)
	}
}

// isAddr reports whether an argument after --dashboard is its address and not a configuration.
func isAddr(arg string) bool {
	_, err := dashboard.ParseAddr(arg)
	return arg != "" && err == nil
}
