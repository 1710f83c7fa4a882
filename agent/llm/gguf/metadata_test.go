package gguf

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTypedGetters(t *testing.T) {
	m := &Metadata{values: map[string]any{
		"s": "x", "b": true, "f": float32(0.5), "d": 0.5, "u8": uint8(7), "i64": int64(-1), "u64": uint64(math.MaxUint64), "u32": uint32(math.MaxUint32),
		"as": []string{"x"}, "ai": []int32{-1}, "au": []uint32{1}, "big": []uint32{math.MaxUint32}, "neg": []int64{-5}, "wide": []uint64{1 << 40}, "af": []float32{1},
	}}
	call := map[string]func(string) (any, error){
		"String":  func(k string) (any, error) { return m.String(k) },
		"Bool":    func(k string) (any, error) { return m.Bool(k) },
		"Float32": func(k string) (any, error) { return m.Float32(k) },
		"Int":     func(k string) (any, error) { return m.Int(k) },
		"Strings": func(k string) (any, error) { return m.Strings(k) },
		"Int32s":  func(k string) (any, error) { return m.Int32s(k) },
	}
	for _, tc := range []struct {
		getter, key string
		want        any
		err         string
	}{
		{"String", "s", "x", ""}, {"String", "b", nil, "is a bool, not a string"},
		{"Bool", "b", true, ""}, {"Bool", "u8", nil, "is a uint8, not a bool"},
		{"Float32", "f", float32(0.5), ""}, {"Float32", "d", float32(0.5), ""}, {"Float32", "u8", nil, "not a float32"},
		{"Int", "u8", 7, ""}, {"Int", "i64", -1, ""}, {"Int", "u64", nil, "not an integer in range"}, {"Int", "f", nil, "not an integer"},
		{"Int", "u32", math.MaxUint32, ""},
		{"Strings", "as", []string{"x"}, ""}, {"Strings", "ai", nil, "not a []string"},
		{"Int32s", "ai", []int32{-1}, ""}, {"Int32s", "au", []int32{1}, ""}, {"Int32s", "neg", []int32{-5}, ""},
		{"Int32s", "big", nil, "element 0 is 4294967295"}, {"Int32s", "wide", nil, "does not fit"}, {"Int32s", "as", nil, "not an array of integers"},
	} {
		got, err := call[tc.getter](tc.key)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), `"`+tc.key+`"`) {
				t.Errorf("%s(%s): error %v, want %q and the key", tc.getter, tc.key, err, tc.err)
			}
			continue
		}
		if d := cmp.Diff(tc.want, got); err != nil || d != "" {
			t.Errorf("%s(%s): %v %s", tc.getter, tc.key, err, d)
		}
	}
	for name, f := range call {
		if _, err := f("absent"); !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), `"absent"`) {
			t.Errorf("%s(absent) = %v, want ErrNoKey", name, err)
		}
	}
}

func TestFloat16(t *testing.T) {
	for h, want := range map[uint16]float32{
		0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0400: 0x1p-14, 0x0001: 0x1p-24, 0x83ff: -1023 * 0x1p-24,
		0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1)), 0x3555: 0.333251953125,
	} {
		if got := float16(h); got != want {
			t.Errorf("float16(%#04x) = %v, want %v", h, got, want)
		}
	}
	if got := float16(0x8000); math.Float32bits(got) != 1<<31 {
		t.Errorf("float16(-0) = %v", got)
	}
	if got := float16(0x7e00); !math.IsNaN(float64(got)) {
		t.Errorf("float16(NaN) = %v", got)
	}
}

func BenchmarkDequantize(b *testing.B) {
	const n = 1 << 20
	dst := make([]float32, n)
	for _, kind := range []Type{F16, Q8_0, Q4_0, Q4_1} {
		b.Run(kind.String(), func(b *testing.B) {
			block := blocks[kind]
			raw := make([]byte, n/block.elements*block.bytes)
			b.SetBytes(4 * n)
			for b.Loop() {
				if err := Dequantize(kind, dst, raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
