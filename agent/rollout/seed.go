package rollout

import "github.com/openmanus/openmanus/agent/llm/engine"

// EpisodeSeed is the seed of one episode's draws. It depends on what the
// episode is and on nothing that happened before, so that a resumed run, or one
// with another concurrency, draws the same. repeat tells apart the places of a
// task that is in a step more than once.
func EpisodeSeed(seed uint64, step int, env, task string, repeat, sample int) uint64 {
	h := mix(seed)
	for _, part := range []uint64{
		uint64(step), engine.TaskHash(env), engine.TaskHash(task), uint64(repeat), uint64(sample),
	} {
		h = mix(h ^ mix(part))
	}
	return h
}

// mix is the output function of SplitMix64 with its increment (Steele, Lea and
// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, fig.
// 17): a bijection whose output bits each depend on all input bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
