package env

import (
	"context"

	"github.com/openmanus/openmanus/env/action"
)

// BabyAI (protocol 5.2, 11.7). /create takes no body, the task is called
// "data_idx": level and seed in one number. The reward handed on is the
// server's score, a running sum, as in AgentGym.
//
// The score is not bounded: a success after the level's step limit has a
// negative reward and no end, and after one every refused action adds it
// again. What is trained on must be, so it is cut to [-1, 1] here; a success
// in time is below 1.

var babyaiServer = server{keys: stepKeys{observation: "observation", reward: "score", done: "done"}}

// babyaiLevels are BabyAI's levels in the server's order: level i holds the
// tasks whose index leaves i when divided by their number.
var babyaiLevels = []string{
	"GoToRedBallGrey", "GoToRedBall", "GoToRedBallNoDists", "GoToObjS6", "GoToLocalS8N7",
	"GoToObjMazeS7", "GoToImpUnlock", "GoToSeqS5R2", "GoToRedBlueBall", "GoToDoor", "GoToObjDoor", "Open", "OpenRedDoor",
	"OpenDoorLoc", "OpenRedBlueDoorsDebug", "OpenDoorsOrderN4Debug", "Pickup", "UnblockPickup", "PickupLoc",
	"PickupDistDebug", "PickupAbove", "PutNextLocalS6N4", "PutNextS7N4Carrying", "Unlock", "UnlockLocalDist",
	"KeyInBox", "UnlockPickupDist", "BlockedUnlockPickup", "UnlockToUnlock", "ActionObjDoor", "FindObjS7",
	"KeyCorridorS6R3", "OneRoomS20", "MoveTwoAcrossS8N9", "SynthS5R2", "SynthLoc", "SynthSeq", "MiniBossLevel",
	"BossLevel", "BossLevelNoUnlock",
}

func init() {
	Register("babyai", Spec{
		Doc:           "reach a goal in rooms with doors, balls, boxes and keys (AgentGym babyai server)",
		New:           newBabyAI,
		Instruction:   babyaiInstruction,
		SuccessReward: 0,
		MaxTurns:      20,
		Family:        func(i int) string { return babyaiLevels[i%len(babyaiLevels)] },
		Deterministic: true,
		Cumulative:    true,
		Greeting:      "This is environment BabyAI.",
	})
}

func babyaiInstruction(format string) string {
	return "You move through rooms on a grid and have to do what the first observation gives as your goal. " +
		"Each observation lists what you see, by colour, kind and number, with its distance in steps in front of you and to your left or right, " +
		"what you carry, and which actions there are now. Use one of those, written exactly as listed. Such actions are: " +
		"turn left, turn right, move forward, go to red ball 1, pickup green key 1, drop, toggle (opens or closes what is before you), " +
		"go through blue open door 1, toggle and go through red closed door 1, check available actions.\n" +
		replyShape(format, "go to red ball 1")
}

type babyai struct {
	instance
	generation action.Parser
}

// dataReset is the body of /reset where the task is called "data_idx".
type dataReset struct {
	DataIdx int   `json:"data_idx"`
	ID      int64 `json:"id"`
}

func newBabyAI(ctx context.Context, o Options) (Client, error) {
	generation, err := o.parser("babyai")
	if err != nil {
		return nil, err
	}
	c, err := newCaller(o, babyaiServer)
	if err != nil {
		return nil, err
	}
	b := &babyai{instance: instance{caller: c}, generation: generation}
	if err := b.create(ctx, nil); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *babyai) Reset(ctx context.Context, index int) (Obs, error) {
	if err := checkIndex("babyai", index); err != nil {
		return Obs{}, err
	}
	return b.reset(ctx, dataReset{DataIdx: index, ID: b.id})
}

// Step sends the action. A text with several actions is answered here under
// the G2 parser.
func (b *babyai) Step(ctx context.Context, text string) (StepResult, error) {
	act := action.ParseSplit(text)
	if b.generation == action.ParserG2 {
		var ok bool
		if act, ok = action.ParseOne(text); !ok {
			return StepResult{Observation: action.TwoActions}, nil
		}
	}
	res, err := b.act(ctx, act)
	res.Reward = min(max(res.Reward, -1), 1)
	return res, err
}

// Close gives the instance back. The server says false for one that was never
// reset, and keeps it.
func (b *babyai) Close(ctx context.Context) error {
	return b.end(func() error { return b.tellClosed(ctx, idBody{b.id}) })
}
