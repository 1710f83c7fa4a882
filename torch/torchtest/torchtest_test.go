package torchtest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

func TestMain(m *testing.M) { Main(m) }

// recorder is a testing.TB that records expected failures.
type recorder struct {
	testing.TB
	text strings.Builder
}

func (r *recorder) Helper()           {}
func (r *recorder) Error(args ...any) { fmt.Fprintln(&r.text, args...) }
func (r *recorder) Errorf(f string, args ...any) {
	fmt.Fprintf(&r.text, f+"\n", args...)
}

func TestFailuresAreReported(t *testing.T) {
	square := func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Square() }
	half := func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Mul(x[0].Detach()) } // the result loses half of the gradient
	other := func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Square().MulScalar(1.01) }
	sum := func(_ *torch.Scope, x []torch.Tensor) torch.Tensor { return x[0].Sum() }
	in := Rand(1, 2, 3)
	onThread := func(f func(r *recorder, s *torch.Scope)) func(r *recorder) {
		return func(r *recorder) { Run(t, func(s *torch.Scope) { f(r, s) }) }
	}
	for _, test := range []struct {
		name string
		f    func(r *recorder)
		want string // empty: no failure
	}{
		{"GradCheck right", func(r *recorder) { GradCheck(r, square, 1e-7, in) }, ""},
		{"GradCheck wrong", func(r *recorder) { GradCheck(r, half, 1e-7, in) }, "gradient of input 0: 6 of 6 elements differ"},
		{"Same right", func(r *recorder) { Same(r, torch.Float32, square, square, 1e-6, in) }, ""},
		{"Same in bfloat16", func(r *recorder) { Same(r, torch.BFloat16, square, square, 1e-2, in) }, ""},
		{"Same, other value", func(r *recorder) { Same(r, torch.Float64, other, square, 1e-4, in) }, "result: "},
		{"Same, other gradient", func(r *recorder) { Same(r, torch.Float64, half, square, 1e-4, in) }, "gradient of input 0: "},
		{"Same, other shape", func(r *recorder) { Same(r, torch.Float64, sum, square, 1e-4, in) }, "the result has 1 elements, want 6"},
		{"Close right", onThread(func(r *recorder, s *torch.Scope) { Close(r, s.Ones(torch.Float32, 2), s.Ones(torch.Int64, 2), 0) }), ""},
		{"Close, shape", onThread(func(r *recorder, s *torch.Scope) { Close(r, s.Ones(torch.Float32, 2), s.Ones(torch.Float32, 1, 2), 0) }), "shape [2], want [1 2]"},
		{"Close, NaN", onThread(func(r *recorder, s *torch.Scope) {
			Close(r, s.Full(math.NaN(), torch.Float32, 1), s.Ones(torch.Float32, 1), 10)
		}), "element 0 is NaN, want 1 (off by +Inf)"},
		{"Values right", onThread(func(r *recorder, s *torch.Scope) {
			Values(r, s.Float64s([]float64{math.NaN(), math.Inf(1)}, 2), 0, math.NaN(), math.Inf(1))
		}), ""},
		{"Values, worst", onThread(func(r *recorder, s *torch.Scope) {
			Values(r, s.Float64s([]float64{1, 2.5, 4}, 3), .1, 1, 2, 3)
		}), "2 of 3 elements differ by more than 0.1; element 2 is 4, want 3 (off by 0.333)"},
		{"Values, number", onThread(func(r *recorder, s *torch.Scope) { Values(r, s.Ones(torch.Float32, 2), 0, 1) }), "with 2 elements, want 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &recorder{TB: t}
			test.f(r)
			got := r.text.String()
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("reported %q, want %q", got, test.want)
			}
		})
	}
}

func TestLeaksAreReported(t *testing.T) {
	o := torch.NewOwner(Thread(t), "leak")
	Run(t, func(s *torch.Scope) { o.Own(s.Zeros(torch.Float32, 256)) })
	if err := leakedTensors(); err == nil || !strings.Contains(err.Error(), "1 tensors with 1024 bytes were never freed") {
		t.Errorf("leakedTensors: error %v", err)
	}
	o.Close()
	if err := leakedTensors(); err != nil {
		t.Error(err)
	}
}

func TestRunErr(t *testing.T) {
	err := RunErr(t, func(s *torch.Scope) { s.Zeros(torch.Float32, 2).Item() })
	if err == nil || !strings.HasPrefix(err.Error(), "torch: Item of [2]") {
		t.Errorf("RunErr: error %v", err)
	}
}
