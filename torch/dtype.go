package torch

import (
	"fmt"
	"strings"
)

// DType is the type of a tensor's elements. The values are those of the C header.
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
	Int8
)

var dtypes = [...]struct {
	name string
	size int
}{
	Float32: {"float32", 4}, Float64: {"float64", 8}, BFloat16: {"bfloat16", 2}, Float16: {"float16", 2},
	Int64: {"int64", 8}, Int32: {"int32", 4}, Uint8: {"uint8", 1}, Bool: {"bool", 1}, Int8: {"int8", 1},
}

func (d DType) String() string {
	if d < 0 || int(d) >= len(dtypes) {
		return fmt.Sprintf("DType(%d)", int(d))
	}
	return dtypes[d].name
}

// Size returns the number of bytes of one element.
func (d DType) Size() int { return dtypes[d].size }

var aliases = map[string]DType{
	"fp32": Float32, "float": Float32, "fp64": Float64, "double": Float64, "bf16": BFloat16, "fp16": Float16, "half": Float16,
}

// ParseDType parses the result of String or an alias such as fp32 or bf16.
func ParseDType(s string) (DType, error) {
	if d, ok := aliases[s]; ok {
		return d, nil
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
