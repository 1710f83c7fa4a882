package torch_test

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestScopesFree(t *testing.T) {
	base := torch.LiveTensors()
	baseBytes := torch.LiveBytes()
	live := func(what string, want int64) {
		t.Helper()
		if n := torch.LiveTensors() - base; n != want {
			t.Errorf("%s: %d live tensors, want %d", what, n, want)
		}
	}
	o := torch.NewOwner(torchtest.Thread(t), "test")
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.Zeros(torch.Float32, 256)
		live("one", 1)
		var y, z torch.Tensor
		s.Do(func(in *torch.Scope) {
			y = x.AddScalar(1)
			z = x.AddScalar(2)
			s.Zeros(torch.Float32) // the innermost scope owns the result, even if a method of the outer scope made it
			in.Do(func(in2 *torch.Scope) {
				w := x.AddScalar(3)
				in2.Keep(w, x, torch.Tensor{}) // x belongs to an outer scope and stays there
				in.Keep(w)
			})
			live("inside", 5)
			in.Keep(y)
			in.Keep(y)
			o.Own(z)
			o.Own(z)
		})
		live("after the inner scope", 4) // x, y, w, z
		torchtest.Values(t, y.Sum(), 0, 256)
		if b := torch.LiveBytes() - baseBytes; b != 4*1024+4 {
			t.Errorf("%d live bytes, want %d", b, 4*1024+4)
		}
		v := z.View(16, 16).Narrow(0, 0, 1)
		if b := torch.LiveBytes() - baseBytes; b != 4*1024+4 || v.Numel() != 16 {
			t.Errorf("%d live bytes with views, want %d as before", b, 4*1024+4)
		}
		in := recoverIn(func() { s.Do(func(*torch.Scope) { x.AddScalar(4); panic("x") }) })
		if in != "x" {
			t.Errorf("Do panics with %v, want x", in)
		}
		live("after a panic", 7) // the four tensors, the sum and two views
	})
	live("after Run", 1)
	if o.Len() != 1 {
		t.Errorf("the owner has %d tensors, want 1", o.Len())
	}
	_ = torchtest.RunErr(t, func(s *torch.Scope) { s.Do(func(s *torch.Scope) { a(s).MatMul(b(s)) }) })
	live("after an error", 1)
	o.Close()
	live("after Close", 0)
	if b := torch.LiveBytes() - baseBytes; b != 0 {
		t.Errorf("%d live bytes at the end, want 0", b)
	}
}

func recoverIn(f func()) (r any) {
	defer func() { r = recover() }()
	f()
	return nil
}

// TestGarbageCollector checks that the garbage collector frees neither operands nor results of gotorch's operations.
func TestGarbageCollector(t *testing.T) {
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	torchtest.Run(t, func(s *torch.Scope) {
		for range 300 {
			s.Do(func(s *torch.Scope) {
				x := s.Full(2, torch.Float32, 32, 32).MatMul(s.Full(3, torch.Float32, 32, 32)).Transpose(0, 1).Sum()
				if v := x.Item(); v != 32*32*32*6 {
					t.Errorf("the sum is %v, want 196608", v)
				}
			})
		}
	})
	close(stop)
	<-done
}

func TestNoGrad(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.Ones(torch.Float32, 2)
		x.SetRequiresGrad(true)
		s.NoGrad(func() {
			if x.Exp().RequiresGrad() {
				t.Error("an operation inside NoGrad was recorded")
			}
			s.NoGrad(func() {})
			if x.Exp().RequiresGrad() {
				t.Error("an operation after a nested NoGrad was recorded")
			}
		})
		_ = recoverIn(func() { s.NoGrad(func() { panic("x") }) })
		if !x.Exp().RequiresGrad() {
			t.Error("an operation after a panic inside NoGrad was not recorded")
		}
	})
	_ = torchtest.RunErr(t, func(s *torch.Scope) { s.NoGrad(func() { a(s).MatMul(b(s)) }) })
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.Ones(torch.Float32, 2)
		x.SetRequiresGrad(true)
		if !x.Exp().RequiresGrad() {
			t.Error("an operation after an error inside NoGrad was not recorded")
		}
	})
}

func TestGrad(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.Float32s([]float32{1, 2}, 2)
		if x.RequiresGrad() {
			t.Error("a new tensor requires a gradient")
		}
		x.SetRequiresGrad(true)
		if !x.Grad().None() {
			t.Error("the tensor has a gradient before Backward")
		}
		x.Square().Sum().Backward()
		torchtest.Values(t, x.Grad(), 0, 2, 4)
		x.Square().BackwardWith(s.Float32s([]float32{1, 10}, 2)) // adds to the gradient
		torchtest.Values(t, x.Grad(), 0, 4, 44)
		if g := x.Grad(); g.RequiresGrad() {
			t.Error("the result of Grad requires a gradient")
		}
		x.ZeroGrad()
		if !x.Grad().None() {
			t.Error("the tensor has a gradient after ZeroGrad")
		}
		x.SetGrad(s.Float32s([]float32{5, 6}, 2))
		torchtest.Values(t, x.Grad(), 0, 5, 6)
		d := x.Exp().Detach()
		if d.RequiresGrad() {
			t.Error("the result of Detach requires a gradient")
		}
		s.NoGrad(func() { x.Copy_(s.Zeros(torch.Float32, 2)) })
		torchtest.Values(t, x, 0, 0, 0)
	})
	err := torchtest.RunErr(t, func(s *torch.Scope) { a(s).SetGrad(s.Zeros(torch.Float32, 3)) })
	if err == nil || err.Error() != "torch: SetGrad of [2 3] and [3]: a gradient of shape [3] for a tensor of shape [2, 3]" {
		t.Errorf("SetGrad of another shape: error %v", err)
	}
}

func TestReading(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.Float32s([]float32{1.5, -2, 0, 3}, 2, 2).Transpose(0, 1) // not in row-major order
		if got := x.ToFloat32s(); !slices.Equal(got, []float32{1.5, 0, -2, 3}) {
			t.Errorf("ToFloat32s returns %v", got)
		}
		if got := x.ToFloat64s(); !slices.Equal(got, []float64{1.5, 0, -2, 3}) {
			t.Errorf("ToFloat64s returns %v", got)
		}
		if got := x.ToInt32s(); !slices.Equal(got, []int32{1, 0, -2, 3}) {
			t.Errorf("ToInt32s returns %v", got)
		}
		if got := s.Full(-2, torch.BFloat16, 2).ToBytes(); !slices.Equal(got, []byte{0, 0xc0, 0, 0xc0}) {
			t.Errorf("ToBytes returns %x", got)
		}
		if got := s.Full(2.5, torch.BFloat16, 1).Item(); got != 2.5 {
			t.Errorf("Item returns %v", got)
		}
		if got := s.Zeros(torch.Float32, 0).ToFloat32s(); len(got) != 0 {
			t.Errorf("ToFloat32s of an empty tensor returns %v", got)
		}
		y := s.Float64s([]float64{1, math.Inf(1)}, 2)
		if y.AllFinite() || !y.Narrow(0, 0, 1).AllFinite() {
			t.Error("AllFinite is wrong")
		}
		if got := s.Zeros(torch.BFloat16, 2, 3).String(); strings.TrimSuffix(got, " on "+torchtest.Device(t).String()) != "bfloat16[2 3]" {
			t.Errorf("String returns %q", got)
		}
		if (torch.Tensor{}).String() != "none" || !(torch.Tensor{}).None() || y.None() {
			t.Error("None is wrong")
		}
	})
}

func TestRandN(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.RandN(7, 100, 100)
		torchtest.Close(t, s.RandN(7, 100, 100), x, 0)
		if v := x.Sub(s.RandN(8, 100, 100)).Abs().Mean().Item(); v < 1 {
			t.Errorf("seeds 7 and 8 differ by %v on average, want 2/√π", v)
		}
		if m, sd := x.Mean().Item(), x.Square().Mean().Sqrt().Item(); math.Abs(m) > .05 || math.Abs(sd-1) > .05 {
			t.Errorf("mean %v, standard deviation %v; want 0, 1", m, sd)
		}
	})
}
