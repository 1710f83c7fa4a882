package env

import "github.com/openmanus/openmanus/env/action"

// BabyAI (protocol 5.2, 11.7). /create takes no body. The key of the task in a
// reset is "data_idx"; the number combines level and seed. The reward is the
// server's score, a running sum, as in AgentGym. For an instance that was never
// reset, /close answers false and does not close it.
//
// The score is not bounded: a success after the level's step limit has a
// negative reward and does not end the episode, and every later action that the server
// refuses adds this reward again. Training needs a bounded reward, so the score is clipped to
// [-1, 1]. A success in time has a reward below 1.

// babyaiLevels lists BabyAI's levels in the server's order. Task i has level i modulo
// the number of levels.
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
	register("babyai", server{
		reset:     `{"data_idx":%d,"id":%s}`,
		parse:     babyaiParse,
		refusal:   action.TwoActions,
		rewardKey: "score",
		adjust:    func(res *StepResult) { res.Reward = min(max(res.Reward, -1), 1) },
		closes:    true,
	}, Spec{
		Doc:           "reach a goal in rooms with doors, balls, boxes and keys (AgentGym babyai server)",
		Instruction:   babyaiInstruction,
		SuccessReward: 0,
		KeepsScore:    true,
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

// babyaiParse rejects a reply with several actions, except under ParserG1.
func babyaiParse(g action.Grammar, reply string) (string, bool) {
	if g.Parser == action.ParserG2 {
		return action.ParseOne(reply)
	}
	return action.ParseSplit(reply), true
}
