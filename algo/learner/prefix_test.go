package learner

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/kl"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// groupRows returns rows of groups of some episodes with equal prompts, with every field that an update reads. Some tokens
// of the prompts are in the loss, and one episode has a second row that continues the first.
func groupRows(groups, size int) []data.Row {
	rows := trainRows(groups * size)
	for i := range rows {
		r, group := &rows[i], i/size
		prompt := make([]int32, 35+10*group)
		for j := range prompt {
			prompt[j] = int32((group*53 + j*17 + j*j*group) % tinyVocab)
		}
		r.UID = fmt.Sprintf("task%d#%d", group, i%size)
		zeros := make([]float32, len(prompt))
		mask := make([]uint8, len(prompt))
		for _, f := range []field{OldLogProbs, RefLogProbs, func(r *data.Row) *[]float32 { return &r.Advantages }} {
			*f(r) = slices.Concat(zeros, *f(r))
		}
		for _, j := range []int{0, 3, 34} {
			mask[j] = 1
			r.OldLogProbs[j], r.RefLogProbs[j], r.Advantages[j] = -5, -4, float32(1-i%3)
		}
		r.RolloutLogProbs = slices.Clone(r.OldLogProbs)
		r.Tokens, r.Mask = slices.Concat(prompt, r.Tokens), slices.Concat(mask, r.Mask)
	}
	return rows
}

// saves returns the number of tokens that the micro-batches of rows save by sharing.
func saves(t *testing.T, rows []data.Row, micro MicroBatching) int {
	t.Helper()
	n := 0
	must(t, eachMicroBatch(t.Context(), torchtest.Thread(t), rows, micro, false, func(p *packed) error {
		for i := range p.rows {
			n += len(p.rows[i].Tokens)
		}
		n -= len(p.layout.IDs)
		if micro.MaxTokens > 0 && len(p.layout.IDs) > micro.MaxTokens {
			t.Errorf("a micro-batch has %d tokens, more than %d", len(p.layout.IDs), micro.MaxTokens)
		}
		return nil
	}))
	return n
}

// TestSharedPrefixesDoNotChangeTheGradient compares losses, log-probs, entropies and gradients with and without shared prefixes.
func TestSharedPrefixesDoNotChangeTheGradient(t *testing.T) {
	micros := []MicroBatching{{}, {Rows: 3}, {MaxTokens: 150}}
	for _, kind := range kinds {
		for dt, tol := range map[torch.DType]float64{torch.Float32: 1e-5, torch.Float64: 1e-10} {
			t.Run(fmt.Sprintf("%s in %v", kind.name, dt), func(t *testing.T) {
				a := actorOf(t, dt, kind.lora)
				worst := 0.0
				for _, loss := range []string{"policy", "full KL", "supervised"} {
					var want map[string][]float64
					var wantRows []data.Row
					var wantLoss float64
					for _, share := range []bool{false, true} {
						for _, micro := range micros {
							micro.SharePrefix = share
							rows := groupRows(3, 4)
							if n := saves(t, rows, micro); (n > 0) != share {
								t.Fatalf("%+v saves %d tokens", micro, n)
							}
							var st PolicyStats
							var sum float64
							if loss == "supervised" {
								sum = gradientSFT(t, a, rows, micro).Loss
							} else {
								o := policyOptions(micro)
								if loss == "full KL" {
									o.KLType, o.Reference = kl.Full, a.master
								}
								must(t, a.accumulatePolicy(t.Context(), rows, loss == "policy", o, &st))
								sum = st.Loss + st.KL + st.Entropy
							}
							got := doubles(t, a)
							if want == nil {
								want, wantRows, wantLoss = got, rows, sum
								continue
							}
							what := fmt.Sprintf("%s loss, %+v", loss, micro)
							if d := math.Abs(sum-wantLoss) / math.Abs(wantLoss); !(d <= tol) {
								t.Errorf("%s: the loss is %v, want %v", what, sum, wantLoss)
							}
							for n := range want {
								d := distance(got[n], want[n])
								if worst = math.Max(worst, d); !(d <= tol) {
									t.Errorf("%s: the relative error of the gradient of %s is %.2g", what, n, d)
								}
							}
							for i := range rows {
								for _, f := range []field{OldLogProbs, Entropies} {
									for j, v := range *f(&wantRows[i]) {
										if d := math.Abs(float64((*f(&rows[i]))[j] - v)); !(d <= 1e-5) {
											t.Fatalf("%s: token %d of row %d has %v, want %v", what, j, i, (*f(&rows[i]))[j], v)
										}
									}
								}
							}
						}
					}
				}
				t.Logf("largest relative error of a gradient: %.2g", worst)
			})
		}
	}
}

// doubles returns the gradients of an actor's trained weights, and drops them.
func doubles(t *testing.T, a *Actor) map[string][]float64 {
	t.Helper()
	out := map[string][]float64{}
	must(t, torch.Run(t.Context(), a.master.Thread(), func(*torch.Scope) error {
		for _, p := range a.master.Trained() {
			out[p.Name] = p.Tensor.Grad().ToFloat64s()
		}
		a.master.DropGrads()
		return nil
	}))
	return out
}

// distance returns ‖a-b‖/‖b‖.
func distance(a, b []float64) float64 {
	var d, norm float64
	for i := range b {
		d += (a[i] - b[i]) * (a[i] - b[i])
		norm += b[i] * b[i]
	}
	return math.Sqrt(d / norm)
}

// TestSharedPrefixesOfValues compares the values and the gradient of a critic.
func TestSharedPrefixesOfValues(t *testing.T) {
	var want map[string][]float64
	var wantRows []data.Row
	for _, share := range []bool{false, true} {
		c, micro := testCritic(t, torch.Float32), MicroBatching{Rows: 5, SharePrefix: share}
		rows := groupRows(2, 4)
		must(t, c.Values(t.Context(), rows, micro))
		for i := range rows {
			rows[i].Returns = slices.Clone(rows[i].Advantages)
		}
		var st CriticStats
		must(t, c.accumulateValue(t.Context(), rows, LossTokens(rows), CriticOptions{Micro: micro, Clip: .5}, &st))
		got := map[string][]float64{}
		must(t, torch.Run(t.Context(), c.master.Thread(), func(*torch.Scope) error {
			for _, p := range append(params(c.master), c.head.params()...) {
				if g := p.Tensor.Grad(); !g.None() {
					got[p.Name] = g.ToFloat64s()
				}
			}
			return nil
		}))
		if want == nil {
			want, wantRows = got, rows
			continue
		}
		for n := range want {
			if d := distance(got[n], want[n]); !(d <= 1e-5) {
				t.Errorf("the relative error of the gradient of %s is %.2g", n, d)
			}
		}
		for i := range rows {
			for j, v := range wantRows[i].Values {
				if d := math.Abs(float64(rows[i].Values[j] - v)); !(d <= 1e-5) {
					t.Fatalf("the value of token %d of row %d is %v, want %v", j, i, rows[i].Values[j], v)
				}
			}
		}
	}
}

// TestRowsWithoutCommonPrefixes checks that an update of such rows has the same bits with SharePrefix.
func TestRowsWithoutCommonPrefixes(t *testing.T) {
	var want map[string][]float32
	for _, share := range []bool{false, true} {
		a := testActor(t, torch.Float32)
		_, err := a.UpdateActor(t.Context(), trainRows(8), 1e-3, policyOptions(MicroBatching{Rows: 3, SharePrefix: share}))
		must(t, err)
		got := weights(t, a)
		if want == nil {
			want = got
		} else if !reflect.DeepEqual(got, want) {
			t.Error("the weights differ")
		}
	}
}

// TestDropoutSharesNoPrefixes checks that an update with dropout has the same bits with SharePrefix.
func TestDropoutSharesNoPrefixes(t *testing.T) {
	var want map[string][]float64
	for _, share := range []bool{false, true} {
		a := actorOf(t, torch.Float32, dropping)
		a.SetDropoutSeed(3)
		micro := MicroBatching{Rows: 5, SharePrefix: share}
		_, err := a.UpdateActor(t.Context(), groupRows(2, 4), 1e-3, policyOptions(micro))
		must(t, err)
		_, err = a.UpdateSFT(t.Context(), groupRows(2, 4), 1e-3, 1, micro)
		must(t, err)
		got := weightsOf(t, a, nil)
		if want == nil {
			want = got
		} else if !reflect.DeepEqual(got, want) {
			t.Error("the weights differ")
		}
	}
}

// TestSharedPrefixesOverRanks compares an update of one process with those of two and three ranks.
func TestSharedPrefixesOverRanks(t *testing.T) {
	var want map[string][]float64
	var wantRows []data.Row
	for _, n := range []int{1, 2, 3} {
		onRanks(t, n, func(rank int, g *dist.Group) {
			a, rows := actorOf(t, torch.Float64, nil), groupRows(3, 4)
			micro := MicroBatching{Rows: 3, Group: g, SharePrefix: n > 1}
			o := policyOptions(micro)
			o.Entropy = true
			_, err := a.UpdateActor(t.Context(), rows, 1e-3, o)
			must(t, err)
			got := weightsOf(t, a, nil)
			if n == 1 {
				want, wantRows = got, rows
				return
			}
			for name := range want {
				if d := distance(got[name], want[name]); !(d <= 1e-8) {
					t.Errorf("rank %d of %d: the relative error of %s is %.2g", rank, n, name, d)
				}
			}
			for i := range rows {
				for j, v := range wantRows[i].Entropies {
					if d := math.Abs(float64(rows[i].Entropies[j] - v)); !(d <= 1e-5) {
						t.Errorf("rank %d of %d: token %d of row %d has the entropy %v, want %v", rank, n, j, i, rows[i].Entropies[j], v)
						return
					}
				}
			}
		})
	}
}

// TestDealKeepsFamiliesTogether checks the distribution of rows with common prefixes.
func TestDealKeepsFamiliesTogether(t *testing.T) {
	const prompt = 2 * model.MinPrefix
	rows := func(groups ...int) []data.Row {
		list := make([]data.Row, len(groups))
		for i, g := range groups {
			list[i].Tokens = append(slices.Repeat([]int32{int32(g)}, prompt), int32(100+i))
		}
		return list
	}
	for _, c := range []struct {
		name  string
		ranks int
		rows  []data.Row
		want  [][]int
	}{
		{"one rank", 1, rows(1, 2, 1, 2), [][]int{{0, 2, 1, 3}}},
		{"a group for each rank", 2, rows(1, 2, 1, 2), [][]int{{0, 2}, {1, 3}}},
		{"one group, of which a part is hardly smaller", 2, rows(1, 1, 1, 1), [][]int{{0, 1, 2, 3}, nil}},
	} {
		hands, err := MicroBatching{SharePrefix: true}.dealTo(c.ranks, c.rows)
		must(t, err)
		var got [][]int
		for _, h := range hands {
			got = append(got, h.index)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: the ranks get the rows %v, want %v", c.name, got, c.want)
		}
	}
	long := rows(1, 1, 1, 1)
	for i := range long {
		long[i].Tokens = append(long[i].Tokens, slices.Repeat([]int32{int32(i)}, 100)...)
	}
	hands, err := MicroBatching{SharePrefix: true}.dealTo(2, long)
	must(t, err)
	if got := [][]int{hands[0].index, hands[1].index}; !reflect.DeepEqual(got, [][]int{{0, 1}, {2, 3}}) {
		t.Errorf("two ranks get the rows %v of one group, want half of it each", got)
	}
}
