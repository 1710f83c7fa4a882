// Package store saves floating-point tensors in safetensors files and reads them back.
//
// Save and Load call torch.Run and must not be called inside it.
package store

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
)

// Param is a tensor under its name in a file.
type Param struct {
	Name   string
	Tensor torch.Tensor
}

var dtypes = map[safetensors.DType]torch.DType{
	safetensors.F64: torch.Float64, safetensors.F32: torch.Float32,
	safetensors.F16: torch.Float16, safetensors.BF16: torch.BFloat16,
}

// Spec declares a tensor of a file. It fails if the dtype is not a floating-point type.
func Spec(name string, dt torch.DType, shape []int) (safetensors.Spec, error) {
	for stored, t := range dtypes {
		if t == dt {
			return safetensors.Spec{Name: name, Info: safetensors.Info{DType: stored, Shape: shape}}, nil
		}
	}
	return safetensors.Spec{}, fmt.Errorf("tensor %s cannot be stored as %s", name, dt)
}

func specs(params []Param) ([]safetensors.Spec, error) {
	list := make([]safetensors.Spec, len(params))
	for i, p := range params {
		var err error
		if list[i], err = Spec(p.Name, p.Tensor.DType(), p.Tensor.Shape()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Save writes tensors of thread t to a file atomically, with metadata in its header.
func Save(ctx context.Context, t *torch.Thread, path string, params []Param, metadata map[string]string) error {
	list, err := specs(params)
	if err != nil {
		return err
	}
	all := map[string]string{"format": "pt"}
	maps.Copy(all, metadata)
	return safetensors.WriteFile(path, list, func(i int, w io.Writer) error {
		return torch.Run(ctx, t, func(s *torch.Scope) (err error) {
			s.NoGrad(func() { err = params[i].Tensor.WriteBytes(w) })
			return err
		})
	}, safetensors.WriteOptions{Metadata: all})
}

// Load overwrites params with the tensors of a file. The file must have exactly the names and shapes of params, and
// their dtypes unless convert is set. If the file does not fit, params stay unchanged.
func Load(ctx context.Context, t *torch.Thread, f *safetensors.File, params []Param, convert bool) error {
	list, err := specs(params)
	if err != nil {
		return err
	}
	if convert {
		for i := range list {
			list[i].Info.DType = ""
		}
	}
	if err := safetensors.Fit(f, list, nil); err != nil {
		return err
	}
	return torch.Run(ctx, t, func(s *torch.Scope) error {
		for _, p := range params {
			var err error
			s.Do(func(s *torch.Scope) {
				s.NoGrad(func() {
					var v torch.Tensor
					if v, err = Read(s, f, p.Name); err == nil {
						p.Tensor.Copy_(v)
					}
				})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Source is implemented by safetensors.File and Folder.
type Source interface {
	Tensor(name string) (safetensors.Info, []byte, error)
}

// Read copies a tensor of a file or folder in its stored dtype. It must be called inside torch.Run.
func Read(s *torch.Scope, f Source, name string) (torch.Tensor, error) {
	info, dt, data, err := stored(f, name)
	if err != nil {
		return torch.Tensor{}, err
	}
	return s.Bytes(data, dt, info.Shape...), nil
}

// ReadPart copies the elements at … at+n-1 of dimension dim of a tensor; see Read. It reads no other elements of the file.
func ReadPart(s *torch.Scope, f Source, name string, dim, at, n int) (torch.Tensor, error) {
	info, dt, data, err := stored(f, name)
	if err != nil {
		return torch.Tensor{}, err
	}
	shape := info.Shape
	if dim < 0 || dim >= len(shape) || at < 0 || n < 0 || n > shape[dim]-at {
		return torch.Tensor{}, fmt.Errorf("tensor %s has shape %v, which has no elements %d to %d of dimension %d", name, shape, at, at+n-1, dim)
	}
	width := dt.Size() // bytes of one element of the dimension
	for _, size := range shape[dim+1:] {
		width *= size
	}
	var part []byte
	if row := shape[dim] * width; row == len(data) {
		part = data[at*width : (at+n)*width]
	} else {
		for from := 0; from < len(data); from += row {
			part = append(part, data[from+at*width:from+(at+n)*width]...)
		}
	}
	shape = slices.Clone(shape)
	shape[dim] = n
	return s.Bytes(part, dt, shape...), nil
}

// stored returns a tensor's description, the dtype of its elements, and its bytes.
func stored(f Source, name string) (safetensors.Info, torch.DType, []byte, error) {
	info, data, err := f.Tensor(name)
	if err != nil {
		return info, 0, nil, err
	}
	dt, ok := dtypes[info.DType]
	if !ok {
		return info, 0, nil, fmt.Errorf("tensor %s is stored as %s, want a floating-point type", name, info.DType)
	}
	return info, dt, data, nil
}
