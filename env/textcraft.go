package env

import "github.com/openmanus/openmanus/env/action"

// TextCraft (protocol 5.1). /create requires a JSON object but ignores its contents. The key of the task
// in a reset is "data_idx"; the server takes it modulo the number of craftable items. AgentGym's
// current server has /close, OpenManus-RL's copy does not. The reply to a step after the end has
// done false, so the caller must stop the episode.

func init() {
	register("textcraft", server{
		create:  `{"minecraft_dir":"agentenv_textcraft/","commands":null,"goal":null}`,
		reset:   `{"data_idx":%d,"id":%s}`,
		parse:   textcraftParse,
		refusal: action.TwoActions,
		detail:  true,
		closes:  true,
	}, Spec{
		Doc:           "craft a given item from recipes (AgentGym textcraft server)",
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

// textcraftParse refuses a reply with several actions, except under ParserG1. An
// empty action is sent.
func textcraftParse(g action.Grammar, reply string) (string, bool) {
	if g.Parser == action.ParserG1 {
		return action.ParseCraft1(reply), true
	}
	return action.ParseOne(reply)
}
