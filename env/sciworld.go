package env

import (
	"cmp"
	"strings"

	"github.com/openmanus/openmanus/env/action"
)

// ScienceWorld (protocol 5.3, 11.8). /create takes no body and starts a Java
// process, which /close ends (OpenManus-RL's copy has no /close). The key of the
// task is "data_idx". The first observation is the task's description and the
// room. The reward is the server's running score, as in AgentGym: from 0 to 100,
// or -100 after a fatal mistake. An invalid action, which is not sent, has reward
// 0 as in AgentGym, whatever the score is.
//
// The server ends an episode after 100 moves. Looking around, reading the
// inventory or the task, and unknown commands are not moves: the server never ends
// an episode that has only such actions. MaxTurns limits these episodes.
//
// Recorded item ids from 1096 on come from a list that lacks one task family.
// Current servers have the same task at an index 300 higher.

// sciworldTasks is the number of task variations.
const sciworldTasks = 4639

// sciworldFamilies lists the task families of current scienceworld packages.
var sciworldFamilies = families{
	{0, "boil"}, {30, "melt"}, {60, "freeze"}, {90, "change-the-state-of-matter-of"}, {120, "use-thermometer"},
	{660, "measure-melting-point-known-substance"}, {1096, "measure-melting-point-unknown-substance"},
	{1396, "power-component"}, {1416, "power-component-renewable-vs-nonrenewable-energy"},
	{1436, "test-conductivity"}, {2336, "test-conductivity-of-unknown-substances"},
	{2936, "find-living-thing"}, {3236, "find-non-living-thing"}, {3536, "find-plant"}, {3836, "find-animal"},
	{4136, "chemistry-mix"}, {4168, "chemistry-mix-paint-secondary-color"}, {4204, "chemistry-mix-paint-tertiary-color"},
	{4240, "lifespan-longest-lived"}, {4365, "lifespan-shortest-lived"}, {4490, "lifespan-longest-lived-then-shortest-lived"},
	{4615, "identify-life-stages-1"}, {4629, "identify-life-stages-2"},
}

func init() {
	register("sciworld", server{
		reset:     `{"data_idx":%d,"id":%s}`,
		opening:   []string{"task_description", "observation"},
		parse:     action.Grammar.Parse,
		functions: sciworldFunctions,
		rewardKey: "score",
		closes:    true,
	}, Spec{
		Doc:           "do an elementary science experiment in a text world (AgentGym sciworld server)",
		Instruction:   sciworldInstruction,
		ActionFormats: action.CallFormats,
		SuccessReward: 99,
		KeepsScore:    true,
		MaxTurns:      30,
		IndexValid:    below(sciworldTasks, "task variations"),
		Family:        sciworldFamilies.at,
		Cumulative:    true,
		Greeting:      "This is environment ScienceWorld.",
	})
}

func sciworldInstruction(format string) string {
	text := "You are in a small world of rooms, a workshop, a kitchen, outdoors and so on, with things to do elementary science with. " +
		"The first observation states your task; it is scored from 0 to 100 as you get on with it. " +
		"Focus on a thing only where the task says so: focusing on a wrong one ends it. " +
		"Where a name fits several things you are asked which one is meant; answer with its number. "
	if action.Format(format).Calls() {
		return text + "\n" + sciworldFunctions.Shape(format, "door to kitchen")
	}
	return text + "The actions are, with OBJ for a thing and LOC for a place: open OBJ, close OBJ, activate OBJ, deactivate OBJ, connect OBJ to OBJ, disconnect OBJ, " +
		"use OBJ [on OBJ], look around, look at OBJ, look in OBJ, examine OBJ, read OBJ, move OBJ to OBJ, pick up OBJ, put down OBJ, pour OBJ into OBJ, dunk OBJ into OBJ, " +
		"mix OBJ (what a container holds), go to LOC, eat OBJ, flush OBJ, focus on OBJ, wait (10 steps of time), wait1 (one), task (states it again), inventory.\n" +
		replyShape(format, "open door to kitchen")
}

// sciworldFunctions lists the functions of protocol 4.3. In AgentGym the instruction
// and the parser name the parameter of read differently; here both are obj.
var sciworldFunctions = action.Functions{
	unary("open", "open {}", "obj", "open a door or a container"),
	unary("close", "close {}", "obj", "close a door or a container"),
	unary("activate", "activate {}", "obj", "switch a device on"),
	unary("deactivate", "deactivate {}", "obj", "switch a device off"),
	sciworldTwo("connect", "connect {}", "to", "obj1", "obj2", "connect two electrical parts"),
	unary("disconnect", "disconnect {}", "obj", "disconnect an electrical part"),
	{Name: "use", Params: []string{"tool", "obj"}, Forms: []string{"use", "use {}", "use {} on {}"}, Extra: true, Optional: true, Doc: "use a tool, on a thing if one is given"},
	{Name: "lookaround", Forms: []string{"look around"}, Doc: "describe the room"},
	unary("lookat", "look at {}", "obj", "describe a thing"),
	unary("read", "read {}", "obj", "read a note or a book"),
	sciworldTwo("move", "move {}", "to", "obj", "container", "put a thing into a container"),
	unary("pickup", "pick up {}", "obj", "take a thing into your inventory"),
	unary("drop", "drop {}", "obj", "put down a thing of your inventory"),
	sciworldTwo("pour", "pour {}", "into", "liq", "container", "pour a liquid into a container"),
	sciworldTwo("dunk", "dunk {}", "in", "container", "liq", "dip a container into a liquid"),
	unary("mix", "mix {}", "container", "mix what a container holds"),
	unary("goto", "go to {}", "loc", "go to a place"),
	unary("eat", "eat {}", "food", "eat something"),
	unary("flush", "flush {}", "obj", "flush a toilet"),
	unary("focus", "focus on {}", "obj", "say that this thing is what the task is about"),
	unary("wait", "wait{}", "duration", "let time pass: 1 for one step"),
	unary("choose", "{}", "option", "answer the question which of several things is meant, with its number"),
	unary("examine", "examine {}", "obj", "describe a thing closely"),
	{Name: "task", Forms: []string{"task"}, Doc: "state the task again"},
	{Name: "inventory", Forms: []string{"inventory"}, Doc: "list what you carry"},
}

// unary returns a function of one argument. ParseJSON also accepts a call without the
// argument: the command is then form without {}, or name if form is only {}.
func unary(name, form, param, doc string) action.Function {
	bare := cmp.Or(strings.TrimSpace(strings.TrimSuffix(form, "{}")), name)
	return action.Function{Name: name, Params: []string{param}, Forms: []string{bare, form}, Doc: doc}
}

// sciworldTwo returns a function of two arguments. ParseJSON ignores further arguments.
func sciworldTwo(name, one, joint, first, second, doc string) action.Function {
	return action.Function{
		Name: name, Params: []string{first, second}, Forms: []string{name, one, one + " " + joint + " {}"}, Extra: true, Doc: doc,
	}
}
