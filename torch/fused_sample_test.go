package torch_test

import (
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestPhilox checks the known answers of the generator's authors (Random123, kat_vectors).
func TestPhilox(t *testing.T) {
	const f = 0xffffffff
	tests := []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{f, f, f, f}, [2]uint32{f, f}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	}
	for _, tt := range tests {
		if got := torch.Philox(tt.counter, tt.key); got != tt.want {
			t.Errorf("philox(%x, %x) = %x, want %x", tt.counter, tt.key, got, tt.want)
		}
	}
}

// gumbel computes the noise of Sample independently, from its documentation.
func gumbel(key, position uint64, id int) float64 {
	c := [4]uint32{uint32(id / 4), 0, uint32(position), uint32(position >> 32)}
	h := torch.Philox(c, [2]uint32{uint32(key), uint32(key >> 32)})[id%4]
	return -math.Log(-math.Log1p(-(float64(h) + 0.5) / (1 << 32)))
}

// sampleByHand computes Sample for one row in plain Go.
func sampleByHand(z []float32, r torch.SampleRow) (token int32, logp float64, kept []int32) {
	temperature := float64(r.Temperature)
	ids := make([]int, len(z))
	for i := range z {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(a, b int) int {
		switch {
		case z[a] > z[b]:
			return -1
		case z[a] < z[b]:
			return 1
		}
		return 0
	})
	if r.TopK > 0 && r.TopK < len(ids) {
		ids = ids[:r.TopK]
	}
	if r.TopP < 1 {
		var total, held float64
		for _, i := range ids {
			total += math.Exp(float64(z[i]) / temperature)
		}
		for n, i := range ids {
			if held += math.Exp(float64(z[i]) / temperature); held >= float64(r.TopP)*total {
				ids = ids[:n+1]
				break
			}
		}
	}
	best, id, sum := math.Inf(-1), 0, 0.0
	for _, i := range ids {
		sum += math.Exp(float64(z[i]) / temperature)
		s := float64(z[i]) / temperature
		if !r.Greedy {
			s += gumbel(r.Key, r.Position, i)
		}
		if s > best {
			best, id = s, i
		}
	}
	if r.Greedy || len(ids) == len(z) {
		ids = nil
	}
	for _, i := range ids {
		kept = append(kept, int32(i))
	}
	slices.Sort(kept)
	return int32(id), float64(z[id])/temperature - math.Log(sum), kept
}

func TestSample(t *testing.T) {
	tests := []struct {
		name string
		row  torch.SampleRow
	}{
		{"plain", torch.SampleRow{Temperature: 1, TopP: 1}},
		{"cold", torch.SampleRow{Temperature: 0.3, TopP: 1}},
		{"hot", torch.SampleRow{Temperature: 5, TopP: 1}},
		{"greedy", torch.SampleRow{Temperature: 0.7, TopP: 1, Greedy: true}},
		{"top-k", torch.SampleRow{Temperature: 1, TopP: 1, TopK: 5}},
		{"top-k of one", torch.SampleRow{Temperature: 3, TopP: 1, TopK: 1}},
		{"top-k beyond the vocabulary", torch.SampleRow{Temperature: 1, TopP: 1, TopK: 1 << 20}},
		{"top-p", torch.SampleRow{Temperature: 1, TopP: 0.5}},
		{"top-p that keeps many", torch.SampleRow{Temperature: 5, TopP: 0.97}},
		{"top-k and top-p", torch.SampleRow{Temperature: 2, TopP: 0.8, TopK: 20}},
	}
	onEveryCPU(t, func(t *testing.T) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				for _, v := range []int{1, 3, 64, 1001, 49152} { // the last is that of SmolLM2
					sampleCase(t, tt.row, v)
				}
			})
		}
	})
}

func sampleCase(t *testing.T, row torch.SampleRow, v int) {
	t.Helper()
	n := min(20, 100_000/v)
	torchtest.Run(t, func(s *torch.Scope) {
		logits := s.RandN(uint64(v), n, v).MulScalar(2)
		z := logits.ToFloat32s()
		rows := make([]torch.SampleRow, n)
		for r := range rows {
			rows[r] = row
			rows[r].Key, rows[r].Position = uint64(r)<<40+12345, uint64(r%3)<<33+7
		}
		ids, logps, kept := torch.Sample(logits, rows)
		for r := range rows {
			id, logp, left := sampleByHand(z[r*v:(r+1)*v], rows[r])
			if ids[r] != id {
				t.Errorf("vocabulary of %d, row %d: token %d, want %d", v, r, ids[r], id)
			}
			if d := math.Abs(float64(logps[r]) - logp); d > 1e-5*max(1, math.Abs(logp)) {
				t.Errorf("vocabulary of %d, row %d: log-prob %v, want %v", v, r, logps[r], logp)
			}
			if !slices.Equal(kept[r], left) {
				t.Errorf("vocabulary of %d, row %d: kept %v, want %v", v, r, kept[r], left)
			}
		}
	})
}

// TestSampleFrequencies checks that χ² over 5 tokens and 20,000 draws is below 18.5, the 0.1 %
// quantile at 4 degrees of freedom. The keys are fixed, so the result is the same in every run.
func TestSampleFrequencies(t *testing.T) {
	const n = 20000
	p := []float64{.5, .25, .15, .0999, .0001}
	tests := []struct {
		name string
		row  func(i int) torch.SampleRow
	}{
		{"positions of one key", func(i int) torch.SampleRow { return torch.SampleRow{Key: 42, Position: uint64(i)} }},
		{"keys at one position", func(i int) torch.SampleRow { return torch.SampleRow{Key: uint64(i), Position: 3} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			torchtest.Run(t, func(s *torch.Scope) {
				z := s.Zeros(torch.Float64, n, 5).Add(s.Float64s(p, 5).Log().MulScalar(2)) // logits for sampling at temperature 2
				rows := make([]torch.SampleRow, n)
				for i := range rows {
					rows[i] = tt.row(i)
					rows[i].Temperature, rows[i].TopP = 2, 1
				}
				ids, _, _ := torch.Sample(z, rows)
				count := make([]float64, len(p))
				for _, id := range ids {
					count[id]++
				}
				var chi2 float64
				for i := range p {
					chi2 += (count[i] - n*p[i]) * (count[i] - n*p[i]) / (n * p[i])
				}
				if chi2 > 18.5 {
					t.Errorf("χ² = %.1f, want below 18.5; counts %v of probabilities %v", chi2, count, p)
				}
			})
		})
	}
}

func TestSampleEdges(t *testing.T) {
	inf := float32(math.Inf(-1))
	tests := []struct {
		name   string
		logits []float32
		row    torch.SampleRow
		id     int32
		logp   float64
	}{
		{"a tie goes to the lower id", []float32{1, 3, 3, 2}, torch.SampleRow{Greedy: true, Temperature: 1, TopP: 1}, 1, -.917576},
		{"temperature 0 is greedy, with log-probs at 1", []float32{1, 3, 3, 2}, torch.SampleRow{TopP: 1}, 1, -.917576},
		{"only one token is possible", []float32{inf, inf, -5, inf}, torch.SampleRow{Temperature: 1, TopP: 1}, 2, 0},
		{"a tiny top-p keeps one", []float32{0, .1, 0, 0}, torch.SampleRow{Temperature: 1, TopP: 1e-9}, 1, 0},
	}
	onEveryCPU(t, func(t *testing.T) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				torchtest.Run(t, func(s *torch.Scope) {
					ids, logps, _ := torch.Sample(s.Float32s(tt.logits, 1, 4), []torch.SampleRow{tt.row})
					if ids[0] != tt.id || math.Abs(float64(logps[0])-tt.logp) > 1e-5 {
						t.Errorf("token %d with log-prob %v, want %d with %v", ids[0], logps[0], tt.id, tt.logp)
					}
				})
			})
		}
	})
}

// TestSampleAlone checks that a draw depends only on its row, and that bfloat16 logits give the same draw as their
// float32 values.
func TestSampleAlone(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		const n, v = 7, 300
		logits := s.RandN(5, n, v).To(torch.BFloat16)
		rows := make([]torch.SampleRow, n)
		for i := range rows {
			rows[i] = torch.SampleRow{Key: uint64(i * i), Position: uint64(100 - i), Temperature: 0.9, TopP: 1}
		}
		ids, logps, _ := torch.Sample(logits, rows)
		for i := range rows {
			id, logp, _ := torch.Sample(logits.Narrow(0, i, 1).To(torch.Float32), rows[i:i+1])
			if id[0] != ids[i] || logp[0] != logps[i] {
				t.Errorf("row %d: token %d with log-prob %v alone, token %d with %v in the batch", i, id[0], logp[0], ids[i], logps[i])
			}
		}
	})
}

// TestSampleLikeTheCPU checks 10,000 draws of the device against those of the CPU, with many ties, and rows of several blocks of
// threads.
func TestSampleLikeTheCPU(t *testing.T) {
	if torchtest.Device(t).IsCPU() {
		t.Skip("the test compares another device with the CPU")
	}
	cuts := []torch.SampleRow{
		{Temperature: 1, TopP: 1}, {Temperature: 0.7, TopP: 1}, {Temperature: 1, TopP: 1, Greedy: true}, {TopP: 1},
		{Temperature: 1, TopP: 1, TopK: 7}, {Temperature: 1, TopP: 0.6}, {Temperature: 2, TopP: 0.9, TopK: 30}, {Temperature: 1, TopP: 1e-6},
	}
	for _, tt := range []struct {
		name string
		n, v int
		step float64 // logits are multiples of it
	}{
		{"keys", 10000, 131, 1e-6},
		{"ties", 400, 300, 0.5},
		{"all equal", 40, 130, 100},
		{"several blocks", 16, 20000, 1e-6},
		{"several blocks with ties", 16, 20000, 0.25},
	} {
		t.Run(tt.name, func(t *testing.T) {
			torchtest.Run(t, func(s *torch.Scope) {
				z := s.RandN(3, tt.n, tt.v).ToFloat32s()
				rows := make([]torch.SampleRow, tt.n)
				for i := range z {
					z[i] = float32(math.Round(float64(2*z[i])/tt.step) * tt.step)
				}
				for i := range rows {
					rows[i] = cuts[i%len(cuts)]
					rows[i].Key, rows[i].Position = uint64(i)*0x9e3779b97f4a7c15, uint64(i%7)<<31
					if i%5 == 4 {
						z[i*tt.v+i%tt.v] = float32(math.Inf(-1))
					}
				}
				logits := s.Float32s(z, tt.n, tt.v)
				ids, logps, kept := torch.Sample(logits, rows)
				wantIDs, wantLogps, wantKept := torch.Sample(logits.ToDevice(torch.Device{}), rows)
				for i := range rows {
					if ids[i] != wantIDs[i] || math.Abs(float64(logps[i]-wantLogps[i])) > 1e-6*max(1, math.Abs(float64(wantLogps[i]))) {
						t.Errorf("row %d, %+v: token %d with log-prob %v, the CPU drew %d with %v", i, rows[i], ids[i], logps[i], wantIDs[i], wantLogps[i])
					}
					if !slices.Equal(kept[i], wantKept[i]) {
						t.Errorf("row %d, %+v: %d tokens are kept, by the CPU %d", i, rows[i], len(kept[i]), len(wantKept[i]))
					}
				}
			})
		})
	}
}
