package loss

import "github.com/openmanus/openmanus/torch"

// rowMeans returns [M]: for every token, the mean of x [M] over the tokens of the
// token's row.
func (b Batch) rowMeans(s *torch.Scope, x torch.Tensor) torch.Tensor {
	return b.byRow(s, x, func(row torch.Tensor) torch.Tensor { return row.Mean() })
}

// rowSums returns [M]: for every token, the sum of x [M] over the tokens of the
// token's row.
func (b Batch) rowSums(s *torch.Scope, x torch.Tensor) torch.Tensor {
	return b.byRow(s, x, torch.Tensor.Sum)
}

func (b Batch) byRow(s *torch.Scope, x torch.Tensor, f func(torch.Tensor) torch.Tensor) torch.Tensor {
	var values []torch.Tensor
	var row []int64
	at := 0
	for _, n := range b.Lens {
		if n == 0 {
			continue
		}
		for range n {
			row = append(row, int64(len(values)))
		}
		values = append(values, f(x.Narrow(0, at, n)))
		at += n
	}
	return torch.Stack(values, 0).IndexSelect(0, s.Int64s(row, len(row)))
}
