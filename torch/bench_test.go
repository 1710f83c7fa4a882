package torch_test

import (
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// BenchmarkCall measures one small operation through the shim and through gotorch.
func BenchmarkCall(b *testing.B) {
	for _, bench := range []struct {
		name string
		f    func(x torch.Tensor)
	}{
		{"shim", func(x torch.Tensor) { x.Neg() }},
		{"gotorch", func(x torch.Tensor) { x.Add(x) }},
		{"shape", func(x torch.Tensor) { x.Shape() }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			torchtest.Run(b, func(s *torch.Scope) {
				x := s.Ones(torch.Float32, 8)
				for done := 0; done < b.N; done += 100 {
					s.Do(func(*torch.Scope) {
						for range 100 {
							bench.f(x)
						}
					})
				}
			})
		})
	}
}
