package env

import (
	"strings"

	"github.com/openmanus/openmanus/env/action"
)

// ALFWorld (protocol 5.4). /create takes no body. A reset names the task in the key "game"
// and a world type, which is always the same. The first observation consists of the text
// and the list of actions; later observations omit the list. The server handles one
// request at a time. No known server has /close, but AgentGym's client calls it.

// Games 0 to alfworldTrain-1 are training games, the others test games.
const (
	alfworldTrain = 2420
	alfworldAll   = 2620
)

func init() {
	register("alfworld", server{
		reset:     `{"game":%d,"world_type":"Text","id":%s}`,
		parse:     action.Grammar.Parse,
		functions: alfworldFunctions,
		actions:   alfworldActions,
		closes:    true,
	}, Spec{
		Doc:           "do a household task in a text world (AgentGym alfworld server)",
		Instruction:   alfworldInstruction,
		ActionFormats: action.CallFormats,
		SuccessReward: 0.99,
		MaxTurns:      30,
		IndexValid:    below(alfworldAll, "games"),
		Family:        families{{0, "train"}, {alfworldTrain, "test"}}.at,
		OneAtATime:    true,
		Greeting:      "This is environment AlfWorld.",
	})
}

var alfworldFunctions = action.Functions{
	alfworldTwo("take", "take {} from {}", "pick up an object from a place"),
	alfworldTwo("put", "put {} in/on {}", "put an object into or onto a place"),
	unary("goto", "go to {}", "recep", "go to a place"),
	unary("open", "open {}", "recep", "open a place to see what it holds"),
	unary("close", "close {}", "recep", "close a place"),
	alfworldTwo("heat", "heat {} with {}", "heat an object with a device"),
	alfworldTwo("cool", "cool {} with {}", "cool an object with a device"),
	alfworldTwo("clean", "clean {} with {}", "clean an object with a device"),
	{Name: "examine", Params: []string{"recep", "obj"}, Forms: []string{"examine", "examine {}", "examine {} with {}"}, Optional: true, Doc: "describe a place, with the help of an object if one is given"},
	{Name: "toggle", Params: []string{"obj"}, CodeParam: "recep", Forms: []string{"toggle", "toggle {}"}, Doc: "switch an object on or off"},
	unary("use", "use {}", "obj", "use an object, such as a lamp"),
	{Name: "inventory", Forms: []string{"inventory"}, Doc: "list what you carry"},
	{Name: "look", Forms: []string{"look"}, Doc: "describe where you are"},
}

func alfworldTwo(name, form, doc string) action.Function {
	return action.Function{Name: name, Params: []string{"obj", "recep"}, Forms: []string{name, name + " {}", form}, Doc: doc}
}

func alfworldInstruction(format string) string {
	text := "You are in a house and have to do a household task, such as finding an object, perhaps cleaning, heating or cooling it, and putting it somewhere. " +
		"The first observation says what is around you, states your task, and lists the actions there are; objects and places have numbers, as in mug 1. " +
		"\"Nothing happens\" means that an action had no effect: try another. "
	if action.Format(format).Calls() {
		return text + "\n" + alfworldFunctions.Shape(format, "mug 1", "desk 1")
	}
	return text + "Such actions are: go to desk 1, open drawer 1, close drawer 1, take mug 1 from desk 1, put mug 1 in/on shelf 1, clean mug 1 with sinkbasin 1, " +
		"heat mug 1 with microwave 1, cool mug 1 with fridge 1, use desklamp 1, examine shelf 1, inventory, look.\n" +
		replyShape(format, "take mug 1 from desk 1")
}

// alfworldActions returns the actions that a reply lists.
func alfworldActions(r *object) string {
	var actions []string
	r.read("available_actions", &actions)
	return "\nAVAILABLE ACTIONS: " + strings.Join(actions, ",")
}
