package curriculum

// The horizon of an episode grows in stages, as AgentGym-RL's ScalingInter-RL
// has it (Xi et al., arXiv:2509.08755, section 4): with few turns an agent first
// learns to use what it has, with more of them to explore.
//
// Differs from the original in: stages begin at the steps that are given, not
// every so many steps; a stage never allows more than the environment's own
// limit; validation always has that limit.

// Stage is a limit on turns that holds from a step on.
type Stage struct {
	From  int // the first step, from 1
	Turns int
}

// Stages are in the order of their first steps.
type Stages []Stage

// Turns is the limit in a step, for an environment whose own is most.
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
