package env

import (
	"strings"

	"github.com/openmanus/openmanus/env/action"
)

// sciworldFunctions are those of protocol 4.3. AgentGym describes read to the
// model with a parameter its own parser does not look for; here both say obj.
var sciworldFunctions = action.Functions{
	sciworldOne("open", "open {}", "obj", "open a door or a container"),
	sciworldOne("close", "close {}", "obj", "close a door or a container"),
	sciworldOne("activate", "activate {}", "obj", "switch a device on"),
	sciworldOne("deactivate", "deactivate {}", "obj", "switch a device off"),
	sciworldTwo("connect", "connect {}", "to", "obj1", "obj2", "connect two electrical parts"),
	sciworldOne("disconnect", "disconnect {}", "obj", "disconnect an electrical part"),
	{Name: "use", Params: []string{"tool", "obj"}, Forms: []string{"use", "use {}", "use {} on {}"}, Extra: true, Optional: true, Doc: "use a tool, on a thing if one is given"},
	{Name: "lookaround", Forms: []string{"look around"}, Doc: "describe the room"},
	sciworldOne("lookat", "look at {}", "obj", "describe a thing"),
	sciworldOne("read", "read {}", "obj", "read a note or a book"),
	sciworldTwo("move", "move {}", "to", "obj", "container", "put a thing into a container"),
	sciworldOne("pickup", "pick up {}", "obj", "take a thing into your inventory"),
	sciworldOne("drop", "drop {}", "obj", "put down a thing of your inventory"),
	sciworldTwo("pour", "pour {}", "into", "liq", "container", "pour a liquid into a container"),
	sciworldTwo("dunk", "dunk {}", "in", "container", "liq", "dip a container into a liquid"),
	sciworldOne("mix", "mix {}", "container", "mix what a container holds"),
	sciworldOne("goto", "go to {}", "loc", "go to a place"),
	sciworldOne("eat", "eat {}", "food", "eat something"),
	sciworldOne("flush", "flush {}", "obj", "flush a toilet"),
	sciworldOne("focus", "focus on {}", "obj", "say that this thing is what the task is about"),
	sciworldOne("wait", "wait{}", "duration", "let time pass: 1 for one step"),
	sciworldOne("choose", "{}", "option", "answer the question which of several things is meant, with its number"),
	sciworldOne("examine", "examine {}", "obj", "describe a thing closely"),
	{Name: "task", Forms: []string{"task"}, Doc: "state the task again"},
	{Name: "inventory", Forms: []string{"inventory"}, Doc: "list what you carry"},
}

// sciworldOne is a function of one argument. Without it a call is its bare
// command, which P-FC sends all the same.
func sciworldOne(name, form, param, doc string) action.Function {
	bare := strings.TrimSpace(strings.TrimSuffix(form, "{}"))
	if bare == "" {
		bare = name
	}
	return action.Function{Name: name, Params: []string{param}, Forms: []string{bare, form}, Doc: doc}
}

// sciworldTwo is a function of two arguments; P-FC ignores more.
func sciworldTwo(name, one, joint, first, second, doc string) action.Function {
	return action.Function{
		Name: name, Params: []string{first, second}, Forms: []string{name, one, one + " " + joint + " {}"}, Extra: true, Doc: doc,
	}
}
