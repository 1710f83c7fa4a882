package env

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/openmanus/openmanus/env/action"
)

// GAIA in the second revision of OpenManus-RL's server (protocol 5.12), for
// which no client exists elsewhere. Instances are called by a UUID; /create
// and /reset name the split of the data, here always validation; the whole
// text is sent, and a line "Action: TOOL Action Input: INPUT" of it counts;
// there is no /close. A step's reward judges that step, and only the tool
// terminate judges the answer, by its words: 1 for all of them.

var gaiaServer = server{}

// gaiaSplit is the split that has answers.
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
	if _, err := o.parser("gaia"); err != nil { // both generations would send the text
		return nil, err
	}
	c, err := newCaller(o, gaiaServer)
	if err != nil {
		return nil, err
	}
	g := &gaia{indexed{instance: instance{caller: c}}}
	raw, err := g.post(ctx, OpCreate, "/create", gaiaCreate{DatasetType: gaiaSplit})
	if err != nil {
		return nil, err
	}
	id, err := g.bareText(OpCreate, "/create", raw)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, g.malformed(OpCreate, "/create", raw, errors.New("the id is empty"))
	}
	g.know(raw, id)
	return g, nil
}

func (g *gaia) Reset(ctx context.Context, index int) (Obs, error) {
	if err := checkIndex("gaia", index); err != nil {
		return Obs{}, err
	}
	return g.restart(ctx, gaiaReset{ID: index, DatasetType: gaiaSplit, EnvIdx: g.idx}, g.resetText)
}

func (g *gaia) Step(ctx context.Context, text string) (StepResult, error) {
	return g.actIndexed(ctx, text)
}

// Close only ends the client: the server has no way to give an instance back.
func (g *gaia) Close(context.Context) error { return g.forget() }
