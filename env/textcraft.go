package env

import (
	"context"

	"github.com/openmanus/openmanus/env/action"
)

// TextCraft (protocol 5.1). /create wants a JSON object; the task is called
// "data_idx" and is taken modulo the number of craftable items; /close exists
// on AgentGym's current server and answers 404 on OpenManus-RL's copy. Stepping
// on after done is answered, with done false: the caller has to stop.

var textcraftServer = server{}

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
	instance
	shown
	generation action.Parser
}

// textcraftCreate is the body upstream's client sends. The server ignores it,
// but refuses a request without one.
type textcraftCreate struct {
	MinecraftDir string  `json:"minecraft_dir"`
	Commands     *string `json:"commands"`
	Goal         *string `json:"goal"`
}

func newTextcraft(ctx context.Context, o Options) (Client, error) {
	generation, err := o.parser("textcraft")
	if err != nil {
		return nil, err
	}
	c, err := newCaller(o, textcraftServer)
	if err != nil {
		return nil, err
	}
	t := &textcraft{instance: instance{caller: c}, generation: generation}
	if err := t.create(ctx, textcraftCreate{MinecraftDir: "agentenv_textcraft/"}); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *textcraft) Reset(ctx context.Context, index int) (Obs, error) {
	if err := checkIndex("textcraft", index); err != nil {
		return Obs{}, err
	}
	return t.begun(t.reset(ctx, dataReset{DataIdx: index, ID: t.id}))
}

// Step sends the action, the empty one too. A text with several actions is
// answered here under the G2 parser.
func (t *textcraft) Step(ctx context.Context, text string) (StepResult, error) {
	if t.generation == action.ParserG1 {
		return t.went(t.act(ctx, action.ParseCraft1(text)))
	}
	act, ok := action.ParseOne(text)
	if !ok {
		return StepResult{Observation: action.TwoActions}, nil
	}
	return t.went(t.act(ctx, act))
}

// Recall asks what the last step came to.
func (t *textcraft) Recall(ctx context.Context) (StepResult, bool, error) {
	return t.recall(ctx, &t.instance)
}

// Close gives the instance back.
func (t *textcraft) Close(ctx context.Context) error {
	return t.end(func() error { return t.tellClosed(ctx, idBody{t.id}) })
}
