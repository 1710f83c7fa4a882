//go:build torchdebug || race

package torch_test

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestDebugChecks(t *testing.T) {
	th := torchtest.Thread(t)
	o := torch.NewOwner(th, "debugged")
	var kept torch.Tensor
	torchtest.Run(t, func(s *torch.Scope) {
		s.Do(func(*torch.Scope) { kept = a(s) })
		text := panics(t, func() { kept.Exp() })
		if !strings.Contains(text, "freed (it was made at ") || !strings.Contains(text, "ops_test.go:") {
			t.Errorf("use after free panics with %q, want the line that made the tensor", text)
		}
		kept = a(s)
		o.Own(kept)
		elsewhere := make(chan string)
		for _, f := range []func(){
			func() { kept.Exp() },
			func() { s.Zeros(torch.Float32) },
			func() { o.Own(kept) },
		} {
			go func() { elsewhere <- panics(t, f) }()
			if text := <-elsewhere; !strings.Contains(text, "outside its thread") {
				t.Errorf("use on another goroutine panics with %q", text)
			}
		}
	})
	live := torch.Live()
	if len(live) != 1 || live[0].Home != "debugged" || live[0].DType != torch.Float32 || !strings.Contains(live[0].Site, "ops_test.go:") {
		t.Errorf("Live returns %+v, want one tensor of the owner debugged", live)
	}
	o.Close()
	if text := panics(t, o.Close); !strings.Contains(text, "debugged was closed twice") {
		t.Errorf("a second Close panics with %q", text)
	}
	if live := torch.Live(); len(live) != 0 {
		t.Errorf("Live returns %+v after Close", live)
	}
}
