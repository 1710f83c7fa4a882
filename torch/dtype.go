package torch

import (
	"fmt"
	"strings"
)

// DType is the type of a tensor's elements. The values are the C header's.
type DType int

// The element types.
const (
	Float32 DType = iota
	Float64
	BFloat16
	Float16
	Int64
	Int32
	Uint8
	Bool
)

var dtypes = [...]struct {
	name string
	size int
}{
	Float32: {"float32", 4}, Float64: {"float64", 8}, BFloat16: {"bfloat16", 2}, Float16: {"float16", 2},
	Int64: {"int64", 8}, Int32: {"int32", 4}, Uint8: {"uint8", 1}, Bool: {"bool", 1},
}

func (d DType) String() string {
	if d < 0 || int(d) >= len(dtypes) {
		return fmt.Sprintf("DType(%d)", int(d))
	}
	return dtypes[d].name
}

// Size is the number of bytes of one element.
func (d DType) Size() int { return dtypes[d].size }

// ParseDType reads the name that String gives, or one of the short forms fp32, fp64, bf16, fp16.
func ParseDType(s string) (DType, error) {
	switch s {
	case "fp32", "float":
		return Float32, nil
	case "fp64", "double":
		return Float64, nil
	case "bf16":
		return BFloat16, nil
	case "fp16", "half":
		return Float16, nil
	}
	names := make([]string, len(dtypes))
	for d, t := range dtypes {
		if s == t.name {
			return DType(d), nil
		}
		names[d] = t.name
	}
	return 0, fmt.Errorf("torch: unknown dtype %q; use one of %s", s, strings.Join(names, ", "))
}
