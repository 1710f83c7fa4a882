package env

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/openmanus/openmanus/env/action"
)

// GAIA in the second revision of OpenManus-RL's server (protocol 5.12), which has
// no other client. Instances are named by a UUID; /create and /reset name the
// split of the data, here always validation; the whole reply is sent, in which
// the server reads a line "Action: TOOL Action Input: INPUT"; there is no
// /close. The reward of a step is for that step alone. Only the tool terminate
// scores the answer, by its words: 1 if all are right.

var gaiaServer = server{}

// gaiaSplit is the split with known answers.
const gaiaSplit = "validation"

func init() {
	Register("gaia", Spec{
		Doc:           "answer a question with web, shell and Python tools (OpenManus-RL gaia server)",
		New:           newGaia,
		Instruction:   gaiaInstruction,
		ToolCall:      action.GaiaCall,
		ToolAnswer:    action.GaiaAnswer,
		SuccessReward: 0.99,
		MaxTurns:      10,
	})
}

func gaiaInstruction(format string) string {
	about := "You answer a question and may use tools on the way. The tools are: " +
		"web_search (input: what to look for), bash (input: a shell command), python_execute (input: code), " +
		"browser_use (input: what to do in a browser), and terminate (input: the answer alone), which ends the task. "
	if format == FormatToolCall {
		return about + "A tool's input is one text.\n" + action.ToolShape("web_search", `"population of Iceland in 2020"`)
	}
	return about + "An action names a tool and its input, on one line. " +
		"Write \"Action Input:\" straight after the tool's name.\n" +
		lineShape(format, "web_search Action Input: population of Iceland in 2020")
}

type gaia struct{ indexed }

type gaiaCreate struct {
	ID          int      `json:"id"`
	DatasetType string   `json:"dataset_type"`
	ToolList    []string `json:"tool_list"`
}

type gaiaReset struct {
	ID          int             `json:"id"`
	DatasetType string          `json:"dataset_type"`
	EnvIdx      json.RawMessage `json:"env_idx"`
}

func newGaia(ctx context.Context, o Options) (Client, error) {
	in, err := newIndexed(ctx, "gaia", o, gaiaServer, gaiaCreate{DatasetType: gaiaSplit}, func(in *indexed, raw json.RawMessage) error {
		id, err := in.bareText(OpCreate, "/create", raw)
		if err == nil && id == "" {
			err = in.malformed(OpCreate, "/create", raw, errors.New("the id is empty"))
		}
		in.setID(raw, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &gaia{in}, nil
}

func (g *gaia) Reset(ctx context.Context, index int) (Obs, error) {
	return g.restart(ctx, index, gaiaReset{ID: index, DatasetType: gaiaSplit, EnvIdx: g.idx}, g.isText)
}

func (g *gaia) Step(ctx context.Context, text string) (StepResult, error) {
	return g.actIndexed(ctx, text)
}
