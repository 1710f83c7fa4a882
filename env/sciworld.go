package env

import (
	"context"

	"github.com/openmanus/openmanus/env/action"
)

// ScienceWorld (protocol 5.3, 11.8). /create takes no body and starts a Java
// process; the task is called "data_idx". The first observation is the task's
// description and the room. The reward handed on is the server's score, from
// 0 to 100, or -100 after a fatal mistake: a running score, as in AgentGym.
//
// The server ends an episode after 100 moves, but looking around, reading the
// inventory or the task and commands it does not know are no moves: an agent
// that does only those plays on for ever. MaxTurns is the limit to play under.
//
// Recorded item ids from 1096 on belong to a list without one task family:
// servers of today have the same task 300 further on.

var sciworldServer = server{keys: stepKeys{observation: "observation", reward: "score", done: "done"}}

// sciworldTasks is the number of task variations.
const sciworldTasks = 4639

// sciworldFamilies are the tasks of current scienceworld packages.
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
	Register("sciworld", Spec{
		Doc:           "do an elementary science experiment in a text world (AgentGym sciworld server)",
		New:           newSciworld,
		Instruction:   sciworldInstruction,
		ActionFormats: action.CallFormats,
		SuccessReward: 99,
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

type sciworld struct {
	instance
	adapter action.Grammar
	shown   string // the last observation; guarded by busy
}

func newSciworld(ctx context.Context, o Options) (Client, error) {
	a, err := newAdapter("sciworld", o, sciworldFunctions)
	if err != nil {
		return nil, err
	}
	c, err := newCaller(o, sciworldServer)
	if err != nil {
		return nil, err
	}
	s := &sciworld{instance: instance{caller: c}, adapter: a}
	if err := s.create(ctx, nil); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *sciworld) Reset(ctx context.Context, index int) (Obs, error) {
	if err := checkIndex("sciworld", index); err != nil {
		return Obs{}, err
	}
	if err := s.enter(); err != nil {
		return Obs{}, err
	}
	defer s.leave()
	raw, err := s.post(ctx, OpReset, "/reset", dataReset{DataIdx: index, ID: s.id})
	if err != nil {
		return Obs{}, err
	}
	var task, room string
	r := s.object(OpReset, "/reset", raw)
	r.read("task_description", &task)
	r.read("observation", &room)
	if r.err != nil {
		return Obs{}, r.err
	}
	s.shown = task + "\n" + room
	return Obs{Text: s.shown}, nil
}

// Step sends the action. An invalid one is answered here, with reward 0 as in
// AgentGym, whatever the score is.
func (s *sciworld) Step(ctx context.Context, text string) (StepResult, error) {
	if err := s.enter(); err != nil {
		return StepResult{}, err
	}
	defer s.leave()
	act, ok := s.adapter.Parse(text)
	if !ok {
		return StepResult{Observation: action.Invalid + s.shown}, nil
	}
	res, _, err := s.send(ctx, act)
	if err == nil {
		s.shown = res.Observation
	}
	return res, err
}

// Close gives the instance back, which ends its Java process. OpenManus-RL's
// copy of the server has no /close.
func (s *sciworld) Close(ctx context.Context) error {
	return s.end(func() error { return s.tellClosed(ctx, idBody{s.id}) })
}
