package torch_test

import (
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestMemoryDoesNotGrow checks that a loop over scopes does not grow the process, for tensors of the shim and of
// gotorch.
func TestMemoryDoesNotGrow(t *testing.T) {
	defer torch.SetNumThreads(torch.NumThreads())
	torch.SetNumThreads(1) // with more threads, the test mostly waits if the machine is busy
	loop := func(n int) {
		torchtest.Run(t, func(s *torch.Scope) {
			for range n {
				s.Do(func(s *torch.Scope) {
					x := s.Full(1, torch.Float32, 1<<15) // 128 KiB
					x.SetRequiresGrad(true)
					x.Add(x).Exp().Sum().Backward()
				})
			}
		})
	}
	loop(5)
	before := torch.RSS()
	if before == 0 {
		t.Skip("the size of the process cannot be read")
	}
	loop(2000) // 1 GiB in all
	if grown := torch.RSS() - before; grown > 100<<20 {
		t.Errorf("the process grew by %d MiB", grown>>20)
	}
}
