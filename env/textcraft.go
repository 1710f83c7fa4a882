package env

import (
	"context"

	"github.com/openmanus/openmanus/env/action"
)

// TextCraft (protocol 5.1). /create requires a JSON object; the task is called
// "data_idx" and taken modulo the number of craftable items; AgentGym's current
// server has /close, OpenManus-RL's copy does not. Steps after the end are
// answered with done false, so the caller has to stop by itself.

var textcraftServer = server{closes: true}

func init() {
	Register("textcraft", Spec{
		Doc:           "craft a given item from recipes (AgentGym textcraft server)",
		New:           newTextcraft,
		Instruction:   textcraftInstruction,
		SuccessReward: 0.99,
		MaxTurns:      20,
		Deterministic: true,
		Greeting:      "This is environment TextCraft.",
	})
}

func textcraftInstruction(format string) string {
	return "You craft things from a list of recipes until you have the one you are asked for. " +
		"You can do three things: \"get COUNT ITEM\" takes something that no recipe makes, " +
		"\"craft COUNT ITEM using COUNT INGREDIENT, COUNT INGREDIENT\" carries out one of the recipes with things you hold, " +
		"and \"inventory\" shows what you hold. " +
		"Always give the counts, exactly as the recipe has them; to make more, craft again. " +
		"Use only the recipes given. Where a recipe names a group of things, such as planks, use one kind of it, such as oak planks. " +
		"You may need to craft an ingredient first.\n" +
		replyShape(format, "get 3 oak log")
}

type textcraft struct {
	*instance
	shown
}

// textcraftCreate is the body that upstream's client sends. The server requires
// a body and ignores it.
type textcraftCreate struct {
	MinecraftDir string  `json:"minecraft_dir"`
	Commands     *string `json:"commands"`
	Goal         *string `json:"goal"`
}

func newTextcraft(ctx context.Context, o Options) (Client, error) {
	in, err := newInstance(ctx, "textcraft", o, textcraftServer, textcraftCreate{MinecraftDir: "agentenv_textcraft/"})
	if err != nil {
		return nil, err
	}
	return &textcraft{instance: in}, nil
}

func (t *textcraft) Reset(ctx context.Context, index int) (Obs, error) {
	return t.begun(t.reset(ctx, index, dataReset{DataIdx: index, ID: t.id}))
}

// Step sends the action, even an empty one. Under ParserG2 a reply with several
// actions is answered here.
func (t *textcraft) Step(ctx context.Context, text string) (StepResult, error) {
	if t.grammar.Parser == action.ParserG1 {
		return t.went(t.act(ctx, action.ParseCraft1(text)))
	}
	act, ok := action.ParseOne(text)
	if !ok {
		return StepResult{Observation: action.TwoActions}, nil
	}
	return t.went(t.act(ctx, act))
}

// Recall returns the result of the last step.
func (t *textcraft) Recall(ctx context.Context) (StepResult, bool, error) {
	return t.recall(ctx, t.instance)
}
