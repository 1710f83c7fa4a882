package generate

import "github.com/openmanus/openmanus/agent/llm/engine"

// drawKey folds the fields of a draw other than its position into the key of
// the counter-based generator; the sampling kernel adds position and token id.
// Every field passes through a full mixing step, so that neighbouring samples,
// turns and seeds share no noise.
func drawKey(d engine.Draw) uint64 {
	k := mix(d.Seed)
	k = mix(k ^ d.Task)
	k = mix(k ^ uint64(int64(d.Sample)))
	return mix(k ^ uint64(int64(d.Turn)))
}

// mix is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
