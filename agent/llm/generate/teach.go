package generate

import (
	"cmp"
	"math"
	"slices"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
)

// teach replaces the token that was drawn from the logits [1,V] of a row, and
// its log-prob, by the teacher's token and the log-prob of the teacher's token.
//
// The sampler takes argmax over v of s_v = z_v/T + G_v (torch.Sample). If the
// two tokens differ, the margin is s_drawn - s_recorded: the smallest
// change of the scaled logits with which the sampler draws the teacher's token.
// With top-k or top-p, see the function margin. A teacher's id outside the
// vocabulary is ignored and reported with an infinite margin.
func (b *Backend) teach(logits torch.Tensor, row torch.SampleRow, d engine.Draw, out *engine.Sampled) {
	recorded, ok := b.teacher.Recorded(d)
	if !ok || recorded == out.Token {
		return
	}
	drawn := out.Token
	z := logits.To(torch.Float32).ToFloat32s()
	if recorded < 0 || int(recorded) >= len(z) {
		b.teacher.Differs(d, recorded, drawn, math.Inf(1))
		return
	}
	out.Token, out.LogProb = recorded, float32(logProb(z, row, recorded))
	b.teacher.Differs(d, recorded, drawn, margin(z, row, recorded, drawn))
}

// scale returns 1/T, the factor of the logits.
func scale(row torch.SampleRow) float64 {
	if t := float64(row.Temperature); t > 0 {
		return 1 / t
	}
	return 1
}

// logProb returns log softmax(z/T)[id] over id and the tokens that top-k and
// top-p keep.
func logProb(z []float32, row torch.SampleRow, id int32) float64 {
	least := math.Inf(-1)
	if truncated(row) {
		least, _ = edge(z, row)
	}
	top, sum := slices.Max(z), 0.0
	for i, x := range z {
		if float64(x) >= least || int32(i) == id {
			sum += math.Exp(float64(x-top) * scale(row))
		}
	}
	return float64(z[id]-top)*scale(row) - math.Log(sum)
}

// truncated reports whether top-k or top-p restricts the draw.
func truncated(row torch.SampleRow) bool { return !row.Greedy && (row.TopK > 0 || row.TopP < 1) }

// margin returns s_drawn - s_recorded or, if it is smaller, the change with which top-k or top-p excludes the drawn token. If
// s_recorded is higher, top-k or top-p excluded the recorded token, and margin returns the change with which they keep it.
func margin(z []float32, row torch.SampleRow, recorded, drawn int32) float64 {
	score := func(id int32) float64 {
		s := float64(z[id]) * scale(row)
		if !row.Greedy {
			s += torch.SampleNoise(row.Key, row.Position, id)
		}
		return s
	}
	m := score(drawn) - score(recorded)
	if !truncated(row) {
		return m
	}
	in, out := edge(z, row)
	if m < 0 { // the recorded token has the higher score, but the cut excluded it
		return (in - float64(z[recorded])) * scale(row)
	}
	return min(m, (float64(z[drawn])-out)*scale(row))
}

// edge returns the smallest logit that top-k followed by top-p keeps, and the
// largest logit that they exclude, or -Inf if they exclude none.
func edge(z []float32, row torch.SampleRow) (in, out float64) {
	sorted := slices.Clone(z)
	slices.SortFunc(sorted, func(a, b float32) int { return cmp.Compare(b, a) })
	kept := len(sorted)
	if row.TopK > 0 {
		kept = min(row.TopK, kept)
	}
	if row.TopP < 1 {
		weight := func(x float32) float64 { return math.Exp(float64(x-sorted[0]) * scale(row)) }
		total, held := 0.0, 0.0
		for _, x := range sorted[:kept] {
			total += weight(x)
		}
		for i, x := range sorted[:kept] {
			if held += weight(x); held >= float64(row.TopP)*total {
				kept = i + 1
				break
			}
		}
	}
	if kept == len(sorted) {
		return float64(sorted[kept-1]), math.Inf(-1)
	}
	return float64(sorted[kept-1]), float64(sorted[kept])
}
