package cli

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
)

// The folders that `env new` and `reward new` write: a Python program that needs only the
// standard library, its test and a configuration.
//
//go:embed scaffold
var scaffolds embed.FS

func envNewCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "new",
		Usage:     "write an environment server of your own in Python, with a test and a configuration",
		ArgsUsage: "NAME",
		Flags:     []cli.Flag{scaffoldDir(), &cli.IntFlag{Name: "port", Value: 36001, Usage: "port of the server in the configuration"}},
	}, 1, 1, envNew)
}

func rewardCommand(s *State) *cli.Command {
	return group("reward", "write score functions of your own",
		leaf(s, &cli.Command{
			Name:      "new",
			Usage:     "write a score function of your own in Python, with a test and a configuration",
			ArgsUsage: "NAME",
			Flags:     []cli.Flag{scaffoldDir()},
		}, 1, 1, rewardNew),
	)
}

func scaffoldDir() cli.Flag {
	return &cli.StringFlag{Name: "dir", Usage: "`DIR` to write; default: NAME"}
}

func envNew(_ context.Context, s *State, c *cli.Context) error {
	name := c.Args().First()
	if _, err := env.Lookup(name); err == nil {
		return usagef("%s is a known environment: choose another name", name)
	}
	port := c.Int("port")
	if port < 1 || port > 65535 {
		return usagef("--port: %d is not allowed; allowed: from 1 to 65535", port)
	}
	dir, err := s.scaffold(c, "env", "{{.Port}}", strconv.Itoa(port))
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "\nNext: test the server, start it, check it, and train on it (openmanus train starts it too):\n"+
		"  (cd %s && python3 -m unittest test_server.py)\n"+
		"  python3 %s --port %d\n"+
		"  %s env check http://127.0.0.1:%d --env agentgym --actions one,jump\n"+
		"  %s train %s\n",
		errext.ShellQuote(dir), errext.ShellQuote(path.Join(dir, "server.py")), port, errext.ShellQuote(s.Args[0]), port, errext.ShellQuote(s.Args[0]), errext.ShellQuote(path.Join(dir, "config.toml")))
	return nil
}

func rewardNew(_ context.Context, s *State, c *cli.Context) error {
	dir, err := s.scaffold(c, "reward")
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "\nNext: test the score function, and train with it:\n"+
		"  (cd %s && python3 -m unittest test_reward.py)\n"+
		"  %s train %s\n"+
		"\nIn the configuration of another run:\n"+
		"  [reward]\n"+
		"  score_fn = \"exec:python3 %s\"\n",
		errext.ShellQuote(dir), errext.ShellQuote(s.Args[0]), errext.ShellQuote(path.Join(dir, "config.toml")), path.Join(dir, "reward.py"))
	return nil
}

// scaffold writes the files of a kind to the folder of the flag --dir, or of the name
// in the argument, and returns the folder. The parameter values lists further names in
// the files, each with its value.
func (s *State) scaffold(c *cli.Context, kind string, values ...string) (dir string, err error) {
	name := c.Args().First()
	if msg := configs.EnvironmentName(name); msg != "" {
		return "", usagef("%s", msg)
	}
	dir = name
	if c.IsSet("dir") {
		dir = strings.TrimRight(c.String("dir"), "/")
	}
	if strings.ContainsAny(dir, "\"'\\\n ") || dir == "" {
		return "", usagef("--dir: %q is not allowed: choose a folder whose name has no quotes and spaces", dir)
	}
	if entries, err := fs.ReadDir(s.DirFS(dir), "."); err == nil && len(entries) > 0 {
		return "", errext.With(errext.Input, "choose another folder with --dir", fmt.Errorf("%s exists and is not empty", dir))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", errext.With(errext.Disk, "", err)
	}
	fill := strings.NewReplacer(append([]string{"{{.Name}}", name, "{{.Dir}}", dir}, values...)...)
	if err := s.MakeFolder(dir); err != nil {
		return "", err
	}
	files, err := fs.Sub(scaffolds, path.Join("scaffold", kind))
	if err != nil {
		return "", err
	}
	return dir, fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		if err := s.WriteFile(filepath.Join(dir, file), []byte(fill.Replace(string(text))), false); err != nil {
			return err
		}
		fmt.Fprintln(s.Stdout, path.Join(dir, file))
		return nil
	})
}
