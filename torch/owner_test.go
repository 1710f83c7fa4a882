package torch_test

import (
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestOwnerReplace checks that Replace gives the new tensor to the owner and
// frees the old one, and that To with the tensors' device changes nothing.
func TestOwnerReplace(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		o := torch.NewOwner(s.Thread(), "replace")
		defer o.Close()
		x, none := s.Full(2, torch.Float32, 3), torch.Tensor{}
		x.SetRequiresGrad(true)
		o.Own(x)
		first := x
		o.To(s, s.Thread().Device(), &x, &none)
		if x != first {
			t.Error("To copied a tensor that is on the device already")
		}
		live := torch.LiveBytes()
		o.Replace(s, func(x torch.Tensor) torch.Tensor { return x.Detach().To(torch.Float64).MulScalar(2) }, &x, &none)
		if x == first || x.DType() != torch.Float64 || first.String() != "freed" || o.Len() != 1 {
			t.Errorf("after Replace the tensor is %v, was %v; the owner has %d tensors", x, first, o.Len())
		}
		if now := torch.LiveBytes(); now != live+3*4 {
			t.Errorf("%d live bytes after Replace, %d before", now, live)
		}
		torchtest.Values(t, x, 0, 4, 4, 4)
	})
}
