package gguf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const golden = "testdata/golden.gguf"

func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestGoldenTensors compares every tensor type bit for bit with the gguf Python
// package (testdata/make_golden.py).
func TestGoldenTensors(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Type   string
		Shape  []int
		Values []float64
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	f := open(t, golden)
	if got := f.Names(); len(got) != len(want) || len(want) != 7 {
		t.Errorf("Names = %q, want %d names", got, len(want))
	}
	for name, w := range want {
		info, _, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Type.String() != w.Type || !cmp.Equal(info.Shape, w.Shape) {
			t.Errorf("%s: %s%v, want %s%v", name, info.Type, info.Shape, w.Type, w.Shape)
		}
		got, err := f.Float32s(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range w.Values {
			if math.Float32bits(got[i]) != math.Float32bits(float32(v)) {
				t.Errorf("%s[%d] = %v, want %v", name, i, got[i], v)
				break
			}
		}
	}
}

func TestGoldenMetadata(t *testing.T) {
	f := open(t, golden)
	m := f.Metadata()
	if err := f.Close(); err != nil { // the metadata stays valid after Close
		t.Fatal(err)
	}
	want := map[string]any{
		"general.architecture": "llama", "general.alignment": uint32(64),
		"t.u8": uint8(200), "t.i8": int8(-100), "t.u16": uint16(60000), "t.i16": int16(-30000),
		"t.u32": uint32(4000000000), "t.i32": int32(-2000000000), "t.f32": float32(0.1), "t.bool": true,
		"t.string": "Ġhello é\n", "t.u64": uint64(math.MaxUint64), "t.i64": int64(math.MinInt64), "t.f64": 0.1,
		"a.string": []string{"a", "", "日本"}, "a.bool": []bool{true, false},
		"a.u8": []uint8{0, 255}, "a.i8": []int8{-128, 127}, "a.u16": []uint16{0, 65535}, "a.i16": []int16{-32768, 32767},
		"a.u32": []uint32{0, math.MaxUint32}, "a.i32": []int32{math.MinInt32, math.MaxInt32}, "a.f32": []float32{0.5, -1.5},
		"a.u64": []uint64{0, math.MaxUint64}, "a.i64": []int64{math.MinInt64, math.MaxInt64}, "a.f64": []float64{0.25, 1e300},
	}
	if d := cmp.Diff(want, m.values); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
	if m.Keys()[0] != "general.architecture" || len(m.Keys()) != len(want) {
		t.Errorf("Keys = %q", m.Keys())
	}
}

// TestRealFile checks SmolLM2-135M-Instruct (Q4_1 and Q8_0) against the hashes
// that testdata/make_golden.py printed for it.
func TestRealFile(t *testing.T) {
	path := filepath.Join("..", "..", "..", "build", "models", "SmolLM2-135M-Instruct.gguf")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the model is not in build/models; ./build.sh model fetches it: %v", err)
	}
	f := open(t, path)
	for name, want := range map[string]string{
		"token_embd.weight":      "3fd491c8066dd9dc1a2bf6796701526c82817d95c0ecabacdef3013c2b8bbbaa",
		"blk.0.attn_q.weight":    "aa74111ad24c3624a20374d2026fd1f50bfe2520252e3c9aef4a666a28593cc8",
		"blk.29.ffn_down.weight": "c19605745425a11e704e305ce3d27b632c406195d39eb3377e9cfb140ac643d1",
		"output_norm.weight":     "3b87f8e27335e67fc08f159cabfd2d18f205d6c5b225a6f978153552bf01d559",
	} {
		x, err := f.Float32s(name)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		if err := binary.Write(h, binary.LittleEndian, x); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != want {
			t.Errorf("%s: sha256 %s, want %s", name, got, want)
		}
	}
	if tokens, err := f.Metadata().Strings("tokenizer.ggml.tokens"); err != nil || len(tokens) != 49152 {
		t.Errorf("%d tokens, error %v; want 49152", len(tokens), err)
	}
	if eps, err := f.Metadata().Float32("llama.attention.layer_norm_rms_epsilon"); err != nil || eps != 1e-5 {
		t.Errorf("epsilon is %v, error %v; want 1e-5", eps, err)
	}
}

func TestClosed(t *testing.T) {
	f := open(t, golden)
	if _, err := f.Float32s("absent"); err == nil || !strings.Contains(err.Error(), `"absent"`) {
		t.Errorf("Float32s(absent) = %v", err)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := f.Float32s("f32"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Float32s after Close = %v", err)
	}
}

// builder writes valid and invalid GGUF files field by field.
type builder struct{ bytes.Buffer }

func (b *builder) put(values ...any) *builder {
	for _, v := range values {
		if s, ok := v.(string); ok {
			b.put(uint64(len(s)))
			b.WriteString(s)
			continue
		}
		if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return b
}

// head begins a version 3 file with the given counts.
func head(tensors, pairs uint64) *builder {
	b := &builder{}
	b.WriteString(magic)
	return b.put(uint32(3), tensors, pairs)
}

// oneTensor returns a file with one tensor entry and 64 bytes of data.
func oneTensor(dims []uint64, kind uint32, offset uint64) []byte {
	b := head(1, 0).put("w", uint32(len(dims)), dims, kind, offset)
	for b.Len()%defaultAlignment != 0 {
		b.WriteByte(0)
	}
	return append(b.Bytes(), make([]byte, 64)...)
}

func twoTensors(second uint64) []byte {
	b := head(2, 0)
	for i, offset := range []uint64{0, second} {
		b.put(string(rune('a'+i)), uint32(1), uint64(16), uint32(F32), offset)
	}
	for b.Len()%defaultAlignment != 0 {
		b.WriteByte(0)
	}
	return append(b.Bytes(), make([]byte, 128)...)
}

func pad(b *builder) []byte { return append(b.Bytes(), make([]byte, 64)...) }

type hostileFile struct {
	file []byte
	want string // contained in the error
}

var hostile = map[string]hostileFile{
	"empty":               {nil, "not a GGUF file"},
	"other magic":         {[]byte("GGML1234567890123456"), "not a GGUF file"},
	"version 1":           {append([]byte("GGUF"), 1, 0, 0, 0), "version 1 is not supported"},
	"big-endian":          {append([]byte("GGUF"), 0, 0, 0, 3), "big-endian"},
	"cut off":             {[]byte("GGUF\x03\x00\x00\x00\x01"), "truncated"},
	"huge tensor count":   {pad(head(math.MaxUint64, 0)), "do not fit"},
	"huge key count":      {pad(head(0, math.MaxUint64)), "do not fit"},
	"huge key":            {pad(head(0, 1).put(uint64(math.MaxUint64))), "too long"},
	"key cut off":         {pad(head(0, 1).put(uint64(60000))), "truncated"},
	"unknown value type":  {pad(head(0, 1).put("k", uint32(13))), "value type 13"},
	"huge string":         {pad(head(0, 1).put("k", valueString, uint64(math.MaxUint64))), "truncated"},
	"bool of 2":           {pad(head(0, 1).put("k", valueBool, uint8(2))), "not a bool"},
	"huge array":          {pad(head(0, 1).put("k", valueArray, valueString, uint64(1<<60))), "does not fit"},
	"array of arrays":     {pad(head(0, 1).put("k", valueArray, valueArray, uint64(1))), "array of arrays"},
	"unknown array type":  {pad(head(0, 1).put("k", valueArray, uint32(99), uint64(1))), "array type 99"},
	"duplicate key":       {pad(head(0, 2).put("k", valueUint8, uint8(1), "k", valueUint8, uint8(1))), "duplicate key"},
	"alignment 0":         {pad(head(0, 1).put(alignmentKey, valueUint32, uint32(0))), "power of two"},
	"alignment 24":        {pad(head(0, 1).put(alignmentKey, valueUint32, uint32(24))), "power of two"},
	"alignment of 2^31":   {pad(head(0, 1).put(alignmentKey, valueUint32, uint32(1<<31))), "power of two"},
	"alignment a string":  {pad(head(0, 1).put(alignmentKey, valueString, "32")), "not an integer"},
	"no dimensions":       {oneTensor(nil, 0, 0), "0 dimensions"},
	"five dimensions":     {oneTensor([]uint64{1, 1, 1, 1, 1}, 0, 0), "5 dimensions"},
	"dimension 0":         {oneTensor([]uint64{0}, 0, 0), "out of range"},
	"dimension over 2^63": {oneTensor([]uint64{1 << 63}, 0, 0), "out of range"},
	"product overflows":   {oneTensor([]uint64{1 << 32, 1 << 32}, 0, 0), "overflows"},
	"bytes overflow":      {oneTensor([]uint64{1 << 61}, 0, 0), "overflows"},
	"unsupported type":    {oneTensor([]uint64{256}, 14, 0), `"w": tensor type Q6_K is not supported`},
	"unknown type":        {oneTensor([]uint64{256}, 99, 0), `"w": tensor type unknown(99) is not supported`},
	"half a block":        {oneTensor([]uint64{48}, uint32(Q8_0), 0), "whole Q8_0 blocks"},
	"offset not aligned":  {oneTensor([]uint64{1}, 0, 4), "not a multiple"},
	"offset past the end": {oneTensor([]uint64{1}, 0, 1<<63), "beyond the end"},
	"data past the end":   {oneTensor([]uint64{17}, 0, 0), "end beyond"},
	"offset near the end": {oneTensor([]uint64{16}, 0, 64), "end beyond"},
	"overlap":             {twoTensors(32), "overlap"},
	"same place":          {twoTensors(0), "overlap"},
	"duplicate tensor": {pad(head(2, 0).put("a", uint32(1), uint64(1), uint32(0), uint64(0),
		"a", uint32(1), uint64(1), uint32(0), uint64(32))), "duplicate name"},
}

func TestHostileFiles(t *testing.T) {
	files := maps.Clone(hostile) // the table also gets files that are too large for the fuzzer
	files["too many tensors"] = hostileFile{append(pad(head(maxTensors+1, 0)), make([]byte, 40*maxTensors)...), "at most"}
	files["too many keys"] = hostileFile{append(pad(head(0, maxPairs+1)), make([]byte, 20*maxPairs)...), "at most"}
	for name, tc := range files {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.gguf")
			if err := os.WriteFile(path, tc.file, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path)
			if err == nil {
				f.Close()
				t.Fatal("Open succeeded")
			}
			if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %q does not contain %q and the path", err, tc.want)
			}
		})
	}
	for name, file := range map[string][]byte{"one": oneTensor([]uint64{16}, 0, 0), "two": twoTensors(64), "none": pad(head(0, 0))} {
		if _, err := parse(file); err != nil { // the helpers that write invalid files can also write these valid ones
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, tc := range hostile {
		f.Add(tc.file)
	}
	file, err := os.ReadFile(golden)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add(twoTensors(64))
	f.Fuzz(func(t *testing.T, file []byte) {
		g, err := parse(file)
		if err != nil {
			return
		}
		for name, tensor := range g.tensors {
			x := make([]float32, tensor.Elements())
			if err := Dequantize(tensor.Type, x, file[tensor.offset:tensor.offset+tensor.size]); err != nil {
				t.Fatalf("tensor %q of an accepted file cannot be read: %v", name, err)
			}
		}
	})
}
