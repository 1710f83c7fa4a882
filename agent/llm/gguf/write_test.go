package gguf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/internal/readertest"
)

// written returns a file of Write, opened.
func written(t *testing.T, meta []Pair, tensors []Spec, data [][]byte) *File {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, meta, tensors, func(i int) ([]byte, error) { return data[i], nil }); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "written.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

// TestWriteWhatWasRead writes the contents of the golden file, whose alignment
// differs, and reads them again.
func TestWriteWhatWasRead(t *testing.T) {
	f := open(t, golden)
	var meta []Pair
	want := map[string]any{}
	for _, key := range f.Metadata().Keys() {
		if key != alignmentKey {
			want[key] = f.Metadata().values[key]
			meta = append(meta, Pair{key, want[key]})
		}
	}
	var specs []Spec
	var data [][]byte
	for _, name := range f.Names() {
		info, raw, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		specs, data = append(specs, Spec{name, info}), append(data, raw)
	}
	again := written(t, meta, specs, data)
	if d := cmp.Diff(want, again.Metadata().values); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
	if d := cmp.Diff(f.Names(), again.Names()); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
	for i, s := range specs {
		info, raw, err := again.Tensor(s.Name)
		if err != nil || !cmp.Equal(info, s.Info) || !bytes.Equal(raw, data[i]) {
			t.Errorf("%s: %+v, %v; want %+v and the same bytes", s.Name, info, err, s.Info)
		}
	}
}

func TestWriteErrors(t *testing.T) {
	vector := Spec{"v", Info{F32, []int{2}}}
	eight := make([]byte, 8)
	for name, tt := range map[string]struct {
		meta    []Pair
		tensors []Spec
		data    []byte
	}{
		"a value of another type": {meta: []Pair{{"k", map[string]int{}}}},
		"an int":                  {meta: []Pair{{"k", 3}}},
		"nil":                     {meta: []Pair{{"k", nil}}},
		"an array of arrays":      {meta: []Pair{{"k", [][]int32{{1}}}}},
		"a key twice":             {meta: []Pair{{"k", true}, {"k", true}}},
		"a tensor twice":          {tensors: []Spec{vector, vector}, data: eight},
		"no dimensions":           {tensors: []Spec{{"v", Info{F32, nil}}}},
		"an empty tensor":         {tensors: []Spec{{"v", Info{F32, []int{0}}}}},
		"an incomplete block":     {tensors: []Spec{{"v", Info{Q8_0, []int{33}}}}},
		"an unknown type":         {tensors: []Spec{{"v", Info{Type(99), []int{2}}}}},
		"too few bytes":           {tensors: []Spec{vector}, data: eight[:7]},
	} {
		if err := Write(io.Discard, tt.meta, tt.tensors, func(int) ([]byte, error) { return tt.data, nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	full := fullAfter(60)
	if err := Write(&full, nil, []Spec{vector}, func(int) ([]byte, error) { return eight, nil }); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: got error %v", err)
	}
}

// fullAfter is a disk with space for this number of bytes.
type fullAfter int

func (f *fullAfter) Write(b []byte) (int, error) {
	if *f -= fullAfter(len(b)); *f < 0 {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

// TestQuantize compares with the gguf Python package: the stored bytes of F32, BF16
// and Q8_0 and the dequantised values.
func TestQuantize(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 32*200)
	for i := range x {
		x[i] = float32(random.NormFloat64() * math.Pow(10, float64(i/640)-6))
	}
	copy(x, []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.5, 127, -127, 126.5, 1e-8, 3e-5})
	clear(x[64:96])
	types := []Type{F32, BF16, Q8_0}
	var specs []Spec
	var data [][]byte
	for _, typ := range types {
		raw, err := Quantize(typ, x)
		if err != nil {
			t.Fatal(err)
		}
		specs, data = append(specs, Spec{typ.String(), Info{typ, []int{200, 32}}}), append(data, raw)
	}
	f := written(t, []Pair{{"general.architecture", "llama"}, {"n", []int32{-1, 2}}, {"s", []string{"é", ""}}}, specs, data)
	out := readertest.Run(t, `
import json, sys
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize, quantize
r = GGUFReader(sys.argv[1])
tensors = {t.name: t for t in r.tensors}
x = tensors["F32"].data.astype(np.float32)
answer = {"fields": {k: r.fields[k].contents() for k in ("GGUF.version", "general.architecture", "n", "s")}, "tensors": {}}
for name, t in tensors.items():
    q = x if name == "F32" else quantize(x, t.tensor_type)
    answer["tensors"][name] = {
        "type": t.tensor_type.name, "shape": [int(d) for d in reversed(t.shape)], "aligned": t.data_offset % 32 == 0,
        "same": bool((np.ascontiguousarray(q).view(np.uint8).reshape(-1) == np.ascontiguousarray(t.data).view(np.uint8).reshape(-1)).all()),
        "values": dequantize(t.data, t.tensor_type).astype(np.float32).reshape(-1).view(np.uint32).tolist()}
print(json.dumps(answer))`, f.Path())
	var got struct {
		Fields  map[string]any
		Tensors map[string]struct {
			Type          string
			Shape         []int
			Aligned, Same bool
			Values        []uint32
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"GGUF.version": 3., "general.architecture": "llama", "n": []any{-1., 2.}, "s": []any{"é", ""}}
	if d := cmp.Diff(want, got.Fields); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
	for _, typ := range types {
		g := got.Tensors[typ.String()]
		if g.Type != typ.String() || !cmp.Equal(g.Shape, []int{200, 32}) || !g.Aligned || !g.Same {
			t.Errorf("%s: the package reads type %s, shape %v, aligned %v, same bytes %v", typ, g.Type, g.Shape, g.Aligned, g.Same)
		}
		values, err := f.Float32s(typ.String())
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if len(g.Values) != len(values) || math.Float32bits(v) != g.Values[i] {
				t.Fatalf("%s: element %d is %v here and differs in the package", typ, i, v)
			}
		}
	}
}

func TestQuantizeErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		t Type
		x []float32
	}{
		"type":             {Q4_0, make([]float32, 32)},
		"incomplete block": {Q8_0, make([]float32, 31)},
		"NaN":              {Q8_0, append(make([]float32, 31), float32(math.NaN()))},
		"infinity":         {Q8_0, append(make([]float32, 31), float32(math.Inf(-1)))},
		"too large":        {Q8_0, append(make([]float32, 31), 1e8)},
	} {
		if _, err := Quantize(tt.t, tt.x); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestFloat16Bits rounds every half and the middles between neighbours.
func TestFloat16Bits(t *testing.T) {
	for h := range uint16(0x7c00) {
		v := float16(h)
		if got := float16Bits(v); got != h {
			t.Fatalf("half %#x = %v becomes %#x", h, v, got)
		}
		if got := float16Bits(-v); got != h|0x8000 {
			t.Fatalf("half %#x = %v becomes %#x", h|0x8000, -v, got)
		}
		if h+1 == 0x7c00 {
			continue
		}
		middle := (v + float16(h+1)) / 2
		if got := float16Bits(middle); got != h+h&1 {
			t.Fatalf("%v between %#x and %#x becomes %#x, want the even one", middle, h, h+1, got)
		}
	}
	for _, v := range []float32{65520, 1e10, float32(math.Inf(1))} {
		if got := float16Bits(v); got != 0x7c00 {
			t.Errorf("%v becomes %#x, want infinity", v, got)
		}
	}
}

func TestBFloat16NaN(t *testing.T) {
	raw, err := Quantize(BF16, []float32{math.Float32frombits(0x7f800001), float32(math.Inf(1))})
	if err != nil {
		t.Fatal(err)
	}
	got := []uint16{binary.LittleEndian.Uint16(raw), binary.LittleEndian.Uint16(raw[2:])}
	if d := cmp.Diff([]uint16{0x7fc0, 0x7f80}, got); d != "" {
		t.Errorf("NaN and infinity (-want +got):\n%s", d)
	}
}
