package optim

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestMain(m *testing.M) { torchtest.Main(m) }

// problem holds the input of testdata/adamw.py.
type problem struct {
	owner  *torch.Owner
	params []Param
}

func newProblem(s *torch.Scope, dt torch.DType) *problem {
	p := &problem{owner: torch.NewOwner(s.Thread(), "problem")}
	for i, shape := range [][]int{{2, 3}, {2, 3}, {5}} {
		n := 1
		for _, d := range shape {
			n *= d
		}
		v := make([]float32, n)
		for j := range v {
			v[j] = float32((7*j+3*i)%11-5) / 5
		}
		t := s.Float32s(v, shape...).To(dt)
		t.SetRequiresGrad(true)
		p.owner.Own(t)
		p.params = append(p.params, Param{Name: string(rune('a' + i)), Tensor: t, NoDecay: i == 2})
	}
	return p
}

func (p *problem) backward() {
	a, b, c := p.params[0].Tensor, p.params[1].Tensor, p.params[2].Tensor
	a.Mul(a).MulScalar(.25).Sum().Add(sin(a).Mul(b).Sum()).Add(c.AddScalar(-1).Square().Sum().Mul(b.Mean())).Backward()
}

// sin returns the Taylor series of the sine, exact to float64 for the |x| < 3 that occur.
func sin(x torch.Tensor) torch.Tensor {
	term, sum := x, x
	for k := 3.0; k < 30; k += 2 {
		term = term.Mul(x).Mul(x).MulScalar(-1 / (k * (k - 1)))
		sum = sum.Add(term)
	}
	return sum
}

var options = AdamWOptions{Beta1: .9, Beta2: .95, Eps: 1e-8, WeightDecay: .1}

func TestAdamWMatchesTorch(t *testing.T) {
	b, err := os.ReadFile("testdata/adamw.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string][]struct {
		Norm   float64
		Params [][]float64
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		dt   torch.DType
		clip float64
		tol  float64
	}{
		{"float32", torch.Float32, 0, 1e-6},
		{"float32_clip", torch.Float32, 1.5, 1e-6},
		{"float64", torch.Float64, 0, 1e-12},
	} {
		t.Run(test.name, func(t *testing.T) {
			steps := golden[test.name]
			if len(steps) != 20 {
				t.Fatalf("%d steps in the golden file, want 20", len(steps))
			}
			torchtest.Run(t, func(s *torch.Scope) {
				p := newProblem(s, test.dt)
				defer p.owner.Close()
				o := NewAdamW(s.Thread(), p.params, options)
				defer o.Close()
				for k, want := range steps {
					p.backward()
					norm, err := o.Step(s, .05*float64(k+1)/20, test.clip)
					if err != nil {
						t.Fatal(err)
					}
					if math.Abs(norm-want.Norm) > 1e-5*want.Norm {
						t.Errorf("step %d: norm %v, want %v", k, norm, want.Norm)
					}
					for i, q := range p.params {
						torchtest.Values(t, q.Tensor, test.tol, want.Params[i]...)
						if !q.Tensor.Grad().None() {
							t.Error("the gradient was not dropped")
						}
					}
				}
				if o.Steps() != 20 {
					t.Errorf("%d steps, want 20", o.Steps())
				}
			})
		})
	}
}

// TestAdamWMasterWeights checks that the master weights accumulate steps that are far below the spacing of bfloat16
// numbers.
func TestAdamWMasterWeights(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.Full(256, torch.BFloat16, 2) // the next bfloat16 number is 258
		x.SetRequiresGrad(true)
		o := NewAdamW(s.Thread(), []Param{{Name: "x", Tensor: x}}, AdamWOptions{Beta1: .9, Beta2: .999, Eps: 1e-8})
		defer o.Close()
		for range 100 {
			x.Sum().Backward()
			if _, err := o.Step(s, .1, 0); err != nil {
				t.Fatal(err)
			}
		}
		torchtest.Values(t, x, 0, 246, 246)
	})
}

func TestAdamWWithoutGradients(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		p := newProblem(s, torch.Float32)
		defer p.owner.Close()
		o := NewAdamW(s.Thread(), p.params, options)
		defer o.Close()
		before := p.params[0].Tensor.ToFloat32s()
		if norm, err := o.Step(s, .1, 1); norm != 0 || err != nil || o.Steps() != 0 {
			t.Errorf("norm %v, error %v, %d steps; want 0, nil and 0", norm, err, o.Steps())
		}
		p.params[1].Tensor.Sum().Backward()
		if _, err := o.Step(s, .1, 1); err != nil {
			t.Fatal(err)
		}
		if after := p.params[0].Tensor.ToFloat32s(); !slices.Equal(before, after) {
			t.Errorf("a parameter without gradient moved from %v to %v", before, after)
		}
	})
}

func TestNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		torchtest.Run(t, func(s *torch.Scope) {
			p := newProblem(s, torch.Float32)
			defer p.owner.Close()
			o := NewAdamW(s.Thread(), p.params, options)
			defer o.Close()
			before := p.params[0].Tensor.ToFloat32s()
			p.params[0].Tensor.MulScalar(bad).Sum().Backward()
			var e *NotFiniteError
			if _, err := o.Step(s, .1, 1); !errors.As(err, &e) || o.Steps() != 0 {
				t.Errorf("Step returned %v after %d steps, want a NotFiniteError", err, o.Steps())
			}
			if !slices.Equal(before, p.params[0].Tensor.ToFloat32s()) || !p.params[0].Tensor.Grad().None() {
				t.Error("the weights changed or the gradient was kept")
			}
		})
	}
}

// TestStepAll checks that in a joint step either all optimisers step, with the same result as separate steps, or none
// does.
func TestStepAll(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		p, alone := newProblem(s, torch.Float32), newProblem(s, torch.Float32)
		defer p.owner.Close()
		defer alone.owner.Close()
		a, b, whole := NewAdamW(s.Thread(), p.params[:1], options), NewAdamW(s.Thread(), p.params[1:], options), NewAdamW(s.Thread(), alone.params[1:], options)
		defer a.Close()
		defer b.Close()
		defer whole.Close()
		values := func() (v []float32) {
			for _, x := range p.params {
				v = append(v, x.Tensor.Detach().ToFloat32s()...)
			}
			return v
		}
		before := values()
		shares := []Share{{Of: a, LR: .1, MaxNorm: .5}, {Of: b, LR: .2}}

		p.backward()
		p.params[0].Tensor.MulScalar(math.NaN()).Sum().Backward()
		var e *NotFiniteError
		if _, err := StepAll(t.Context(), s, nil, shares...); !errors.As(err, &e) || a.Steps() != 0 || b.Steps() != 0 {
			t.Errorf("StepAll returned %v after %d and %d steps, want a NotFiniteError", err, a.Steps(), b.Steps())
		}
		if !slices.Equal(before, values()) || !p.params[2].Tensor.Grad().None() {
			t.Error("the weights changed or a gradient was kept")
		}

		p.backward()
		alone.backward()
		norms, err := StepAll(t.Context(), s, nil, shares...)
		want, errAlone := whole.Step(s, .2, 0)
		if err != nil || errAlone != nil || len(norms) != 2 || norms[1] != want || !(norms[0] > 0) {
			t.Errorf("StepAll: norms %v, error %v; a separate Step: norm %v, error %v", norms, err, want, errAlone)
		}
		for i := 1; i < 3; i++ {
			if !slices.Equal(p.params[i].Tensor.Detach().ToFloat32s(), alone.params[i].Tensor.Detach().ToFloat32s()) {
				t.Errorf("%s differs after StepAll and after a separate Step", p.params[i].Name)
			}
		}
		if slices.Equal(before[:6], values()[:6]) {
			t.Error("the first optimiser did not change its parameters")
		}
	})
}

func TestMovedMoments(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		var got [2][]float32
		for i, moved := range []bool{false, true} {
			p := newProblem(s, torch.Float32)
			o := NewAdamW(s.Thread(), p.params, options)
			for range 3 {
				p.backward()
				if _, err := o.Step(s, .1, 1); err != nil {
					t.Fatal(err)
				}
				if moved {
					live := torch.LiveTensors()
					o.To(s, s.Thread().Device()) // the state is on this device already
					o.owner.Replace(s, torch.Tensor.Clone, o.moments()...)
					if now := torch.LiveTensors(); now != live {
						t.Errorf("%d live tensors, want %d as before", now, live)
					}
				}
			}
			got[i] = p.params[0].Tensor.ToFloat32s()
			o.Close()
			p.owner.Close()
		}
		if !slices.Equal(got[0], got[1]) {
			t.Error("the weights changed after moments were moved")
		}
	})
}

func TestClipScale(t *testing.T) {
	for _, test := range []struct {
		name      string
		max, want float64
	}{
		{"clipped", 1, 1 / (5 + 1e-6)}, {"below the limit", 6, 1}, {"no limit", 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if scale := clipScale(5, test.max); scale != test.want {
				t.Errorf("scale %v, want %v", scale, test.want)
			}
		})
	}
}

func TestSaveLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "optimizer.safetensors")
	ctx := context.Background()
	for _, dt := range []torch.DType{torch.Float32, torch.Float64, torch.BFloat16} {
		t.Run(dt.String(), func(t *testing.T) {
			var p, q *problem
			var o, o2 *AdamW
			step := func(s *torch.Scope, p *problem, o *AdamW) {
				p.backward()
				if _, err := o.Step(s, .01, 1); err != nil {
					t.Fatal(err)
				}
			}
			torchtest.Run(t, func(s *torch.Scope) {
				p, q = newProblem(s, dt), newProblem(s, dt)
				o, o2 = NewAdamW(s.Thread(), p.params, options), NewAdamW(s.Thread(), q.params, options)
				for range 3 {
					step(s, p, o)
				}
			})
			defer p.owner.Close()
			defer q.owner.Close()
			defer o.Close()
			defer o2.Close()
			if err := o.Save(ctx, path); err != nil {
				t.Fatal(err)
			}
			if err := o2.Load(ctx, path); err != nil {
				t.Fatal(err)
			}
			torchtest.Run(t, func(s *torch.Scope) {
				s.NoGrad(func() {
					for i := range p.params {
						q.params[i].Tensor.Copy_(p.params[i].Tensor)
					}
				})
				for range 3 {
					step(s, p, o)
					step(s, q, o2)
				}
				for i := range p.params {
					torchtest.Close(t, q.params[i].Tensor, p.params[i].Tensor, 0)
				}
			})
			if o2.Steps() != 6 {
				t.Errorf("%d steps, want 6", o2.Steps())
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "optimizer.safetensors")
	ctx := context.Background()
	var p *problem
	torchtest.Run(t, func(s *torch.Scope) { p = newProblem(s, torch.Float32) })
	defer p.owner.Close()
	optimiser := func(params []Param) (o *AdamW) {
		torchtest.Run(t, func(s *torch.Scope) { o = NewAdamW(s.Thread(), params, options) })
		return o
	}
	saved := optimiser(p.params)
	defer saved.Close()
	if err := saved.Save(ctx, path); err != nil {
		t.Fatal(err)
	}
	swapped := []Param{p.params[0], p.params[2], p.params[1]}
	swapped[1].Name, swapped[2].Name = "b", "c"
	other := slices.Clone(p.params)
	other[0].Name = "z"
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		params []Param
		path   string
		want   string
	}{
		{"missing file", p.params, filepath.Join(dir, "none"), "none"},
		{"no safetensors", p.params, text, text},
		{"another name", other, path, "tensor z.exp_avg is missing"},
		{"another shape", swapped, path, "tensor b.exp_avg has shape [2 3], want [5]"},
		{"fewer", p.params[:2], path, "tensor c.exp_avg is unexpected"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := optimiser(test.params)
			defer o.Close()
			if err := o.Load(ctx, test.path); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	t.Run("nowhere to write", func(t *testing.T) {
		if err := saved.Save(ctx, filepath.Join(dir, "none", "x")); err == nil || !strings.Contains(err.Error(), "save the optimiser") {
			t.Errorf("Save into a missing folder: error %v", err)
		}
	})
}
