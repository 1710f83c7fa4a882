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

// TestFreedMemoryIsReused checks that new tensors take the place of freed ones of the same size that lie between others. The C library
// serves this size from its heap.
func TestFreedMemoryIsReused(t *testing.T) {
	if !torchtest.Device(t).IsCPU() {
		t.Skip("this test needs tensors on the host")
	}
	// 1500 tensors of 96 KiB are 141 MiB. Sizes that are no multiples of the alignment are the worst case of libtorch's allocator.
	const count, size, kept = 1500, 24<<10 - 4, 100
	torchtest.Run(t, func(s *torch.Scope) {
		s.Do(func(s *torch.Scope) {
			for range count {
				s.Full(1, torch.Float32, size)
				s.Keep(s.Full(1, torch.Float32, kept))
			}
		})
		before := torch.RSS()
		if before == 0 {
			t.Skip("the size of the process cannot be read")
		}
		for range count {
			s.Full(1, torch.Float32, size)
		}
		if grown := torch.RSS() - before; grown > 8<<20 {
			t.Errorf("the process grew by %d MiB", grown>>20)
		}
	})
}
