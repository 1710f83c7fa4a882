package model

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// tokens returns n ids that differ from those of other seeds.
func tokens(seed, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((seed*31 + i*7 + i*i*seed) % 61)
	}
	return ids
}

func TestFamilies(t *testing.T) {
	a, b := tokens(1, 40), tokens(2, 50)
	after := func(prefix []int32, seed, n int) []int32 { return slices.Concat(prefix, tokens(seed, n)) }
	long := after(b, 9, 40)
	for _, c := range []struct {
		name string
		seqs [][]int32
		want []Family
	}{
		{"none", nil, nil},
		{"nothing in common", [][]int32{a, b, tokens(3, 60)}, []Family{{[]int{0}, 0}, {[]int{1}, 0}, {[]int{2}, 0}}},
		{"too short a prefix", [][]int32{after(a[:MinPrefix-1], 3, 9), after(a[:MinPrefix-1], 4, 9)}, []Family{{[]int{0}, 0}, {[]int{1}, 0}}},
		{"two groups, one row apart", [][]int32{after(b, 3, 5), after(a, 4, 5), after(b, 5, 2), after(a, 6, 9), after(b, 7, 1)},
			[]Family{{[]int{0, 2, 4}, 50}, {[]int{1, 3}, 40}}},
		{"equal rows and a row that is the prefix", [][]int32{a, after(a, 3, 4), a}, []Family{{[]int{0, 1, 2}, 40}}},
		// Two families save 50 + 90 tokens, one family 3 · 50.
		{"one level: many share less", [][]int32{after(b, 3, 5), after(b, 4, 5), after(long, 5, 1), after(long, 6, 1)}, []Family{{[]int{0, 1, 2, 3}, 50}}},
		// One family saves 2 · 50 tokens, the two longest rows alone 90 + 50.
		{"one level: few share more", [][]int32{after(b, 3, 5), after(after(long, 7, 40), 5, 1), after(after(long, 7, 40), 6, 1)},
			[]Family{{[]int{0}, 0}, {[]int{1, 2}, 130}}},
	} {
		got := Families(c.seqs)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: Families gives %v, want %v", c.name, got, c.want)
		}
		p := PackFamilies(c.seqs, got)
		for i, seq := range c.seqs {
			for j, id := range seq {
				if at := p.At(i, j); p.IDs[at] != id || p.Positions[at] != int32(j) {
					t.Fatalf("%s: token %d of sequence %d is at %d: id %d at position %d, want %d", c.name, j, i, at, p.IDs[at], p.Positions[at], id)
				}
			}
		}
		total := 0
		for _, f := range got {
			total += f.Prefix
			for _, i := range f.Seqs {
				total += len(c.seqs[i]) - f.Prefix
			}
		}
		if len(p.IDs) != total {
			t.Errorf("%s: the pack has %d tokens, want %d", c.name, len(p.IDs), total)
		}
	}
}

// TestForwardPackedSharesPrefixes compares log-probs and gradients with and without shared prefixes.
func TestForwardPackedSharesPrefixes(t *testing.T) {
	th := newThread(t)
	a, b := tokens(1, 33), tokens(2, 70)
	seqs := [][]int32{slices.Concat(a, tokens(3, 9)), slices.Concat(b, tokens(4, 1)), slices.Concat(a, tokens(5, 20)), tokens(6, 5), b, slices.Concat(a, tokens(7, 3))}
	for _, name := range tiny {
		for _, checkpointing := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, checkpointing %v", name, checkpointing), func(t *testing.T) {
				m := openTiny(t, th, name, torch.Float32)
				m.SetGradientCheckpointing(checkpointing)
				both := func(families []Family) (logps []float32, grads map[string][]float32) {
					grads = map[string][]float32{}
					run(t, th, func(s *torch.Scope) {
						m.SetTrainable(true)
						p := PackFamilies(seqs, families)
						var at, targets []int64
						for i, seq := range seqs {
							for j := 1; j < len(seq); j++ {
								at, targets = append(at, int64(p.At(i, j-1))), append(targets, int64(seq[j]))
							}
						}
						hidden := m.ForwardPacked(s, p).IndexSelect(0, s.Int64s(at, len(at)))
						logp, _ := m.TokenLogProbs(hidden, targets, nil, 1, false)
						logps = logp.Detach().ToFloat32s()
						m.Backward(s, logp.Square().Sum())
						for _, w := range m.Trained() {
							grads[w.Name] = w.Tensor.Grad().ToFloat32s()
							w.Tensor.ZeroGrad()
						}
						m.SetTrainable(false)
					})
					return logps, grads
				}
				var alone []Family
				for i := range seqs {
					alone = append(alone, Family{Seqs: []int{i}})
				}
				families := Families(seqs)
				if len(families) != 3 {
					t.Fatalf("the sequences have the families %v, want 3", families)
				}
				got, grads := both(families)
				want, wantGrads := both(alone)
				for i := range want {
					if d := math.Abs(float64(got[i] - want[i])); !(d <= 1e-5) {
						t.Fatalf("log-prob %d is %v, want %v", i, got[i], want[i])
					}
				}
				for n, w := range wantGrads {
					var d, norm float64
					for i := range w {
						d += math.Pow(float64(grads[n][i]-w[i]), 2)
						norm += math.Pow(float64(w[i]), 2)
					}
					if !(math.Sqrt(d) <= 1e-5*math.Sqrt(norm)) {
						t.Errorf("the relative error of the gradient of %s is %.2g", n, math.Sqrt(d/norm))
					}
				}
			})
		}
	}
}
