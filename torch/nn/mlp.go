package nn

import "github.com/openmanus/openmanus/torch"

// SwiGLU is the gated feed-forward block down(silu(gate(x)) · up(x)) (Shazeer 2020, eq. 6).
type SwiGLU struct {
	GateProj Linear // gate_proj
	UpProj   Linear // up_proj
	DownProj Linear // down_proj
}

// Forward keeps the shape of x [...,D].
func (m *SwiGLU) Forward(x torch.Tensor) torch.Tensor {
	return m.DownProj.Forward(torch.SwiGLU(m.GateProj.Forward(x), m.UpProj.Forward(x)))
}

// Infer is Forward without gradients; see the function of that name.
func (m *SwiGLU) Infer(x torch.Tensor) torch.Tensor {
	y := Infer(x, &m.GateProj, &m.UpProj)
	return Infer(torch.SwiGLU(y[0], y[1]), &m.DownProj)[0]
}
