package torch_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// TestWriteBytes writes tensors of no part, one and several parts, and compares them with ToBytes.
func TestWriteBytes(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		for _, n := range []int{0, 1, 1000, 1 << 20, 2<<20 + 3} {
			x := s.RandN(1, 2, n)
			for _, x := range []torch.Tensor{x, x.Transpose(0, 1), x.To(torch.BFloat16)} {
				w := &parts{}
				if err := x.WriteBytes(w); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(w.Bytes(), x.ToBytes()) {
					t.Errorf("WriteBytes of a tensor of %v and ToBytes differ", x.Shape())
				}
				if most := slices.Max(append(w.sizes, 0)); most > 4<<20 {
					t.Errorf("a tensor of %v is written in parts of up to %d bytes", x.Shape(), most)
				}
			}
		}
		full := errors.New("full")
		if err := s.Full(1, torch.Float32, 3).WriteBytes(&parts{err: full}); !errors.Is(err, full) {
			t.Errorf("WriteBytes to a writer that fails: error %v", err)
		}
	})
}

// parts is a buffer that records the sizes of its writes.
type parts struct {
	bytes.Buffer
	sizes []int
	err   error
}

// Write implements io.Writer.
func (p *parts) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	p.sizes = append(p.sizes, len(b))
	return p.Buffer.Write(b)
}
