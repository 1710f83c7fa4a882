package optim

import (
	"os"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// TestStepLaunches checks on the protected device that the number of launches of a step does not depend on the number of
// parameters, and that a step waits for the device once, for the norm.
func TestStepLaunches(t *testing.T) {
	if os.Getenv("OPENMANUS_KERNELS") == "off" {
		t.Skip("the kernels are off")
	}
	th, err := torch.NewThread(torch.Device{Protected: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(th.Close)
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
		var operations [2]int
		for i, n := range []int{4, 40} {
			err := torch.Run(t.Context(), th, func(s *torch.Scope) error {
				var params []Param
				for k := range n {
					x := s.Ones(dt, 3, 5+k)
					x.SetRequiresGrad(true)
					params = append(params, Param{Name: "x", Tensor: x, NoDecay: k%2 == 0})
				}
				a := NewAdamW(th, params, DefaultAdamW())
				defer a.Close()
				for range 2 { // the first step allocates
					for _, p := range params {
						p.Tensor.SetGrad(p.Tensor.Detach().Clone())
					}
					before := torch.ProtectedCounts()
					if _, err := a.Step(s, .1, 1); err != nil {
						return err
					}
					now := torch.ProtectedCounts()
					operations[i] = now.Operations - before.Operations
					if waits := now.Downloads - before.Downloads; waits != 1 {
						t.Errorf("%v: a step of %d parameters waits %d times, want once", dt, n, waits)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if operations[0] != operations[1] || operations[0] > 3 {
			t.Errorf("%v: %d operations with 4 parameters, %d with 40; want at most 3", dt, operations[0], operations[1])
		}
	}
}
