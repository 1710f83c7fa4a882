package curriculum

// The horizon of an episode grows in stages, as in AgentGym-RL's ScalingInter-RL (Xi et
// al., arXiv:2509.08755, section 4): few turns teach exploitation first, more turns
// allow exploration later.
//
// Differs from the paper in: stages start at given steps, not at equal intervals; a
// stage never exceeds the limit of the environment. Validations always use this limit.

// Stage is a limit on turns from a step on.
type Stage struct {
	From  int // first step of the stage, counted from 1
	Turns int
}

// Stages are sorted by their first steps.
type Stages []Stage

// Turns returns the limit on turns in a step. The argument most is the environment's limit.
func (s Stages) Turns(step, most int) int {
	turns := most
	for _, stage := range s {
		if stage.From > step {
			break
		}
		turns = min(most, stage.Turns)
	}
	return turns
}
