package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// le returns the little-endian bytes of values.
func le(t testing.TB, values any) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGolden reads a file that the reference implementation wrote
// (testdata/make_golden.py).
func TestGolden(t *testing.T) {
	f, err := Open("testdata/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]struct {
		Info Info
		Data []byte
	}{
		"f64":           {Info{F64, []int{3}}, le(t, []float64{0.1, -2.5, 1e300})},
		"f32":           {Info{F32, []int{2, 3}}, le(t, []float32{0, 0.25, 0.5, 0.75, 1, 1.25})},
		"f16":           {Info{F16, []int{3}}, le(t, []uint16{0x3c00, 0xb800, 0x7bff})},
		"bf16":          {Info{BF16, []int{2, 1}}, le(t, []uint16{0x3f80, 0xc040})},
		"i64":           {Info{I64, []int{2}}, le(t, []int64{math.MinInt64, math.MaxInt64})},
		"i32":           {Info{I32, []int{2}}, le(t, []int32{-7, 7})},
		"i16":           {Info{I16, []int{2}}, le(t, []int16{-7, 7})},
		"i8":            {Info{I8, []int{3}}, []byte{0x80, 0x7f, 0}},
		"u8":            {Info{U8, []int{2}}, []byte{0, 255}},
		"bool":          {Info{Bool, []int{3}}, []byte{1, 0, 1}},
		"scalar":        {Info{F32, []int{}}, le(t, []float32{3.5})},
		"empty":         {Info{F32, []int{0, 4}}, []byte{}},
		`name "with" é`: {Info{U8, []int{1}}, []byte{1}},
	}
	if got := f.Names(); len(got) != len(want) {
		t.Errorf("Names() = %q, want %d names", got, len(want))
	}
	for name, w := range want {
		info, data, err := f.Tensor(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(w.Info, info); d != "" {
			t.Errorf("%s: info (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(w.Data, data); d != "" {
			t.Errorf("%s: data (-want +got):\n%s", name, d)
		}
	}
	if d := cmp.Diff(map[string]string{"format": "pt", "note": "golden"}, f.Metadata()); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
}

func TestClose(t *testing.T) {
	f, err := Open("testdata/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Tensor("nope"); err == nil || !strings.Contains(err.Error(), `"nope"`) {
		t.Errorf("Tensor(nope) = %v, want an error naming it", err)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, _, err := f.Tensor("f32"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Tensor after Close = %v, want os.ErrClosed", err)
	}
}

// image builds a file from a header text and data.
func image(header string, data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

// hostile lists invalid files, which are also the seeds of the fuzzer.
var hostile = map[string]struct {
	file []byte
	want string // a part of the error
}{
	"empty file":          {nil, "not enough"},
	"seven bytes":         {make([]byte, 7), "not enough"},
	"huge header length":  {binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "over the limit"},
	"header past the end": {binary.LittleEndian.AppendUint64(nil, 100), "beyond the end"},
	"no header":           {image("", nil), "expected"},
	"not JSON":            {image("hello", nil), "expected"},
	"array":               {image("[]", nil), "expected"},
	"cut off JSON":        {image(`{"a":`, nil), "unexpected end"},
	"not UTF-8":           {image("{\"\xff\":{}}", nil), "UTF-8"},
	"two objects":         {image("{}{}", nil), "after top-level value"},
	"NUL padding":         {image("{}\x00", nil), "after top-level value"},
	"missing dtype":       {image(`{"a":{"shape":[],"data_offsets":[0,4]}}`, make([]byte, 4)), `"dtype" is missing`},
	"missing shape":       {image(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, make([]byte, 4)), `"shape" is missing`},
	"missing offsets":     {image(`{"a":{"dtype":"F32","shape":[]}}`, make([]byte, 4)), `"data_offsets" is missing`},
	"unknown key":         {image(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}}`, make([]byte, 4)), "unknown key"},
	"other case":          {image(`{"a":{"DType":"F32","shape":[],"data_offsets":[0,4]}}`, make([]byte, 4)), "unknown key"},
	"duplicate key":       {image(`{"a":{"dtype":"F32","dtype":"I32","shape":[],"data_offsets":[0,4]}}`, make([]byte, 4)), "duplicate key"},
	"duplicate name":      {image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, make([]byte, 2)), "duplicate key"},
	"duplicate by escape": {image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, make([]byte, 2)), "duplicate key"},
	"duplicate metadata":  {image(`{"__metadata__":{"a":"1","a":"2"}}`, nil), "duplicate key"},
	"two metadata":        {image(`{"__metadata__":{},"__metadata__":{}}`, nil), "duplicate key"},
	"metadata number":     {image(`{"__metadata__":{"a":1}}`, nil), "expected a string"},
	"unknown dtype":       {image(`{"a":{"dtype":"F12","shape":[1],"data_offsets":[0,1]}}`, make([]byte, 1)), `dtype "F12" is not supported`},
	"8-bit float":         {image(`{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}`, make([]byte, 1)), `dtype "F8_E4M3" is not supported`},
	"negative dimension":  {image(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, make([]byte, 1)), "non-negative"},
	"float dimension":     {image(`{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, make([]byte, 1)), "non-negative"},
	"string dimension":    {image(`{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}`, make([]byte, 1)), "non-negative"},
	"dimension over 2^63": {image(`{"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}}`, make([]byte, 1)), "non-negative"},
	"product overflows":   {image(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, nil), "overflows"},
	"product wraps to 0":  {image(`{"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}}`, nil), "overflows"},
	"too many dimensions": {image(`{"a":{"dtype":"U8","shape":[`+strings.Repeat("1,", 64)+`1],"data_offsets":[0,1]}}`, make([]byte, 1)), "more than 64"},
	"size mismatch":       {image(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, make([]byte, 4)), "takes 8 bytes"},
	"null dimension":      {image(`{"a":{"dtype":"U8","shape":[null],"data_offsets":[0,0]}}`, nil), "non-negative"},
	"null shape":          {image(`{"a":{"dtype":"U8","shape":null,"data_offsets":[0,1]}}`, make([]byte, 1)), "expected an array"},
	"null dtype":          {image(`{"a":{"dtype":null,"shape":[],"data_offsets":[0,1]}}`, make([]byte, 1)), "expected a string"},
	"one offset":          {image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1]}}`, make([]byte, 1)), "not [begin, end]"},
	"three offsets":       {image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}`, make([]byte, 1)), "more than 2"},
	"reversed offsets":    {image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, make([]byte, 1)), "not [begin, end]"},
	"overlap":             {image(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, make([]byte, 3)), "overlap"},
	"same place":          {image(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, make([]byte, 2)), "overlap"},
	"hole":                {image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, make([]byte, 2)), "hole"},
	"data cut off":        {image(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, make([]byte, 3)), "truncated"},
	"data left over":      {image(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, make([]byte, 5)), "its tensors take 4"},
	"deep nesting":        {image(`{"a":`+strings.Repeat("[", 100000), nil), "max depth"},
}

func TestHostileHeaders(t *testing.T) {
	for name, tc := range hostile {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.safetensors")
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
			if len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestTooManyNames checks that headers and an index with more names than maxNames
// are refused, and that the index of a model with many experts is accepted.
func TestTooManyNames(t *testing.T) {
	many := func(n int, value string) string {
		var sb strings.Builder
		sb.WriteString("{")
		for i := range n {
			if i > 0 {
				sb.WriteString(",")
			}
			fmt.Fprintf(&sb, `"%d":%s`, i, value)
		}
		return sb.String() + "}"
	}
	const want = "more than 524288 names"
	const experts = 60 * 384 * 3 * 4 // layers, experts, matrices, tensors of a quantised matrix
	if index, err := parseIndex([]byte(`{"weight_map":` + many(experts, `"model.safetensors"`) + `}`)); err != nil || len(index) != experts {
		t.Errorf("parsing an index of %d names returns %d names, error %v", experts, len(index), err)
	}
	texts := many(maxNames+1, `""`)
	for name, header := range map[string]string{
		"tensors":  many(maxNames+1, `{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`),
		"metadata": `{"__metadata__":` + texts + `}`,
	} {
		if _, err := parse(image(header, nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	for name, index := range map[string]string{"weight_map": `{"weight_map":` + texts + `}`} {
		if _, err := parseIndex([]byte(index)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("index, %s: error %v, want %q", name, err, want)
		}
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("this system has no named pipes: %v", err)
	}
	for _, path := range []string{dir, pipe} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("Open(%s) = %v", path, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open(absent) = %v", err)
	}
}

func TestByteSizeOfEmptyTensor(t *testing.T) {
	n, err := Info{F32, []int{math.MaxInt64, math.MaxInt64, 0}}.ByteSize()
	if n != 0 || err != nil {
		t.Errorf("ByteSize = %d, %v, want 0", n, err)
	}
}

// FuzzParse checks the files that parse accepts: every tensor lies in the data and
// has the size of its shape, and together the tensors fill the data.
func FuzzParse(f *testing.F) {
	for _, tc := range hostile {
		f.Add(tc.file)
	}
	golden, err := os.ReadFile("testdata/golden.safetensors")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(image("{} ", nil))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := parse(file)
		if err != nil {
			return
		}
		data := file[h.dataAt:]
		total := 0
		for name, e := range h.tensors {
			size, err := e.ByteSize()
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			view := data[e.begin:e.end]
			if int64(len(view)) != size {
				t.Fatalf("%q: %d bytes for %s%v", name, len(view), e.DType, e.Shape)
			}
			total += len(view)
		}
		if total != len(data) {
			t.Fatalf("the tensors take %d of %d bytes", total, len(data))
		}
		names := h.names
		for i := 1; i < len(names); i++ {
			if h.tensors[names[i]].begin != h.tensors[names[i-1]].end {
				t.Fatalf("%q does not follow %q", names[i], names[i-1])
			}
		}
	})
}
