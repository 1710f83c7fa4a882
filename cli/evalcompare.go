package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/internal/errext"
)

func compareCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "compare",
		Usage:     "compare two results of eval --out or --json, task by task",
		ArgsUsage: "A.json B.json",
		Flags: []cli.Flag{
			jsonFlag(),
			&cli.BoolFlag{Name: "anyway", Usage: "compare results even if their conditions differ"},
		},
	}, 2, 2, runCompare)
}

// maxResult bounds the size of a result.
const maxResult = 1 << 30

func runCompare(_ context.Context, s *State, c *cli.Context) error {
	a, err := s.readResult(c.Args().Get(0))
	if err != nil {
		return err
	}
	b, err := s.readResult(c.Args().Get(1))
	if err != nil {
		return err
	}
	cmp, err := eval.Compare(a, b, c.Bool("anyway"))
	if _, ok := errors.AsType[*eval.ContractError](err); ok {
		return errext.With(errext.Input, "evaluate both under the same conditions, or give --anyway to compare them regardless", err)
	}
	if err != nil {
		return errext.With(errext.Input, "give two files of openmanus eval --out", err)
	}
	return s.printWrapped(cmp, cmp.String(), c.Bool("json"))
}

func (s *State) readResult(path string) (eval.Result, error) {
	var r eval.Result
	text, err := s.ReadFile(path, maxResult)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, errext.With(errext.Input, "give a file of openmanus eval --out", fmt.Errorf("%s: %w", path, err))
	}
	return r, nil
}
