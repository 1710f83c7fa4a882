package model

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sort"

	"github.com/openmanus/openmanus/torch"
)

// Hash identifies the weights: "sha256:" and the hex digest over all
// parameters in the order of their names, each as its checkpoint name, a zero
// byte, the name of its type, a zero byte, the number of dimensions and
// the dimensions as little-endian uint64, and its elements row-major and
// little-endian. Tied parameters count once, adapters
// under PEFT's names. A checkpoint and its copy in
// another container therefore agree when loaded in the same type.
func (m *Model) Hash(ctx context.Context) (string, error) {
	params := append(m.Params(), m.Adapters()...)
	sort.Slice(params, func(i, j int) bool { return params[i].Name < params[j].Name })
	h := sha256.New()
	number := func(n int) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	}
	for _, p := range params {
		var data []byte
		var shape []int
		err := torch.Run(ctx, m.thread, func(*torch.Scope) error {
			shape, data = p.Tensor.Shape(), p.Tensor.ToBytes()
			return nil
		})
		if err != nil {
			return "", err
		}
		h.Write([]byte(p.Name + "\x00" + p.Tensor.DType().String() + "\x00"))
		number(len(shape))
		for _, d := range shape {
			number(d)
		}
		h.Write(data)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
