package nn

import "github.com/openmanus/openmanus/torch"

// SwiGLU is the gated feed-forward block down(silu(gate(x)) · up(x)) (Shazeer 2020, eq. 6).
type SwiGLU struct {
	GateProj Linear
	UpProj   Linear
	DownProj Linear
}

// Forward keeps the shape of x [...,D].
func (m *SwiGLU) Forward(x torch.Tensor) torch.Tensor {
	return m.DownProj.Forward(torch.SwiGLU(m.GateProj.Forward(x), m.UpProj.Forward(x)))
}
