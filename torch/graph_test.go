package torch_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestGraph records y = (2x + 1)·w and launches it after x has changed.
func TestGraph(t *testing.T) {
	d := torchtest.Device(t)
	if d.IsCPU() {
		d = torch.Device{Protected: true}
	}
	th, err := torch.NewThread(d)
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	for _, tt := range []struct {
		name   string
		inside func(s *torch.Scope, x torch.Tensor) // during the recording
		after  func(o *torch.Owner, w torch.Tensor) // before the second launch
		err    string                               // of the protected device; on a GPU only the operation is certain
	}{
		{name: "launches"},
		{name: "a copy to the host", inside: func(_ *torch.Scope, x torch.Tensor) { x.ToFloat32s() }, err: torch.OpRecord},
		{name: "a copy from the host", inside: func(s *torch.Scope, x torch.Tensor) { x.Add(s.Float32s([]float32{1, 2}, 2)) }, err: torch.OpRecord},
		{name: "freed memory", after: func(o *torch.Owner, w torch.Tensor) { o.Release(w) }, err: torch.OpLaunch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.err != "" && !d.Protected {
				t.Skip("a GPU does not recover from this error, or does not report it")
			}
			o := torch.NewOwner(th, "graph")
			defer o.Close()
			var x, w, y torch.Tensor
			var g *torch.Graph
			err := torch.Run(t.Context(), th, func(s *torch.Scope) error {
				x, w = s.Float32s([]float32{1, 2}, 2), s.Float32s([]float32{10, 100}, 2)
				o.Own(x, w)
				f := func() {
					y = x.MulScalar(2).AddScalar(1).Mul(w)
					if tt.inside != nil {
						tt.inside(s, x)
					}
				}
				if tt.inside == nil {
					s.Rehearse(f)
				}
				g = o.Record(s, f)
				o.Own(y)
				return nil
			})
			for i, want := range [][]float32{{30, 500}, {70, 900}} {
				if err != nil {
					break
				}
				err = torch.Run(t.Context(), th, func(s *torch.Scope) error {
					if i == 1 {
						s.NoGrad(func() { x.Add_(s.Full(2, torch.Float32, 2), 1) })
						if tt.after != nil {
							tt.after(o, w)
						}
					}
					g.Launch()
					if got := y.ToFloat32s(); !slices.Equal(got, want) {
						t.Errorf("launch %d: %v, want %v", i+1, got, want)
					}
					return nil
				})
			}
			failed, _ := errors.AsType[*torch.Error](err)
			if (failed == nil) != (tt.err == "") || failed != nil && failed.Op != tt.err {
				t.Errorf("error %v, want one of %q", err, tt.err)
			}
			// The thread computes as before.
			if err := torch.Run(t.Context(), th, func(s *torch.Scope) error {
				if got := s.Ones(torch.Float32, 1).AddScalar(1).ToFloat32s(); !slices.Equal(got, []float32{2}) {
					t.Errorf("1 + 1 is %v after the graph", got)
				}
				return nil
			}); err != nil && !strings.Contains(tt.name, "freed") {
				t.Error(err)
			}
		})
	}
}
