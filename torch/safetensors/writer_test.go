package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// randomTensors makes up to 12 tensors of any dtype and shape with their bytes.
func randomTensors(r *rand.Rand) ([]Spec, map[string][]byte) {
	types := []DType{F64, F32, F16, BF16, I64, I32, I16, I8, U8, Bool}
	var specs []Spec
	data := map[string][]byte{}
	for i := range r.IntN(13) {
		info := Info{DType: types[r.IntN(len(types))], Shape: []int{}}
		for range r.IntN(4) {
			info.Shape = append(info.Shape, r.IntN(5))
		}
		name := fmt.Sprintf("layer.%d.\"w\"<é>\n", i)
		n, _ := info.ByteSize()
		b := make([]byte, n)
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		specs = append(specs, Spec{name, info})
		data[name] = b
	}
	return specs, data
}

func fetcher(specs []Spec, data map[string][]byte) Data {
	return func(i int, w io.Writer) error {
		b := data[specs[i].Name]
		for len(b) > 5 { // in parts
			if _, err := w.Write(b[:5]); err != nil {
				return err
			}
			b = b[5:]
		}
		_, err := w.Write(b)
		return err
	}
}

func TestRoundTrip(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		specs, data := randomTensors(r)
		limit := int64(0)
		if seed%2 == 1 && len(specs) > 0 {
			limit = 1 + r.Int64N(200)
		}
		dir := t.TempDir()
		meta := map[string]string{"format": "pt", "k\"": "é\n"}
		if err := WriteFolder(dir, specs, fetcher(specs, data), WriteOptions{Metadata: meta, MaxShardBytes: limit}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		f, err := OpenFolder(dir)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(f.Names()) != len(specs) {
			t.Errorf("seed %d: %d names, want %d", seed, len(f.Names()), len(specs))
		}
		for _, s := range specs {
			info, b, err := f.Tensor(s.Name)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if d := cmp.Diff(s.Info, info); d != "" || !bytes.Equal(b, data[s.Name]) {
				t.Errorf("seed %d: %s differs after reading: %s", seed, s.Name, d)
			}
			if len(b) > 0 && uintptr(unsafe.Pointer(&b[0]))%uintptr(info.DType.Size()) != 0 {
				t.Errorf("seed %d: %s is not aligned to its elements", seed, s.Name)
			}
		}
		for _, file := range f.files {
			if d := cmp.Diff(meta, file.Metadata()); d != "" {
				t.Errorf("seed %d: metadata %s", seed, d)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWriterIsDeterministic(t *testing.T) {
	specs := []Spec{{"b", Info{F32, []int{2}}}, {"a", Info{F32, []int{1}}}, {"c", Info{U8, []int{3}}}, {"d", Info{F64, nil}}}
	data := map[string][]byte{"a": le(t, float32(1)), "b": le(t, []float32{2, 3}), "c": {1, 2, 3}, "d": le(t, 4.0)}
	var files [2][]byte
	for i, order := range [][]int{{0, 1, 2, 3}, {3, 1, 0, 2}} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		var shuffled []Spec
		for _, j := range order {
			shuffled = append(shuffled, specs[j])
		}
		if err := WriteFile(path, shuffled, fetcher(shuffled, data), WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		var err error
		if files[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("the order of the specs changed the file")
	}
	const header = `{"__metadata__":{"format":"pt"},` +
		`"d":{"dtype":"F64","shape":[],"data_offsets":[0,8]},` +
		`"a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},` +
		`"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]},` +
		`"c":{"dtype":"U8","shape":[3],"data_offsets":[20,23]}}`
	if !strings.HasPrefix(string(files[0][8:]), header) {
		t.Errorf("the file begins with the header %q", files[0][8:])
	}
	if files[0][0]%8 != 0 {
		t.Errorf("header length %d is not a multiple of 8", files[0][0])
	}
}

// faultFile fails a chosen operation, as a full disk does.
type faultFile struct {
	*os.File
	op  string
	hit *bool
}

func (f faultFile) WriteAt(p []byte, off int64) (int, error) {
	if f.op == "write" && off > 0 || f.op == "header" && off == 0 {
		*f.hit = true
		n, _ := f.File.WriteAt(p[:len(p)/2], off) // write a part before the fault
		return n, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

func (f faultFile) Sync() error {
	if f.op == "sync" {
		*f.hit = true
		return syscall.EIO
	}
	return f.File.Sync()
}

func TestFullDiskLeavesNothing(t *testing.T) {
	specs := []Spec{{"a", Info{F32, []int{4}}}, {"b", Info{F32, []int{4}}}}
	data := map[string][]byte{"a": make([]byte, 16), "b": make([]byte, 16)}
	for _, limit := range []int64{0, 16} {
		for _, op := range []string{"create", "header", "write", "sync"} {
			// The fault occurs in the nth file; with two shards this is a shard or the index.
			for nth := range 3 {
				t.Run(fmt.Sprintf("%s limit %d file %d", op, limit, nth), func(t *testing.T) {
					dir := t.TempDir()
					opened, hit := 0, false
					o := WriteOptions{MaxShardBytes: limit, create: func(path string) (tempFile, error) {
						opened++
						if opened-1 != nth {
							return createTemp(path)
						}
						if op == "create" {
							hit = true
							return nil, syscall.ENOSPC
						}
						f, err := os.Create(path)
						return faultFile{f, op, &hit}, err
					}}
					err := WriteFolder(dir, specs, fetcher(specs, data), o)
					if !hit {
						if err != nil {
							t.Fatal(err)
						}
						return // this case has no such operation
					}
					if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EIO) {
						t.Errorf("WriteFolder: error %v, want ENOSPC or EIO", err)
					}
					left, _ := os.ReadDir(dir)
					if len(left) > 0 {
						t.Errorf("files left after the error: %v", left)
					}
				})
			}
		}
	}
}

// write writes n zeros.
func write(w io.Writer, n int) error {
	_, err := w.Write(make([]byte, n))
	return err
}

func TestWriteFileKeepsOldFileOnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	specs := []Spec{{"a", Info{U8, []int{1}}}, {"b", Info{U8, []int{1}}}}
	for want, second := range map[string]func(w io.Writer) error{
		`"b": 2 bytes`: func(w io.Writer) error { return write(w, 2) },
		`"b": 3 bytes`: func(w io.Writer) error { return errors.Join(write(w, 1), write(w, 2)) },
		`"b": 0 bytes`: func(w io.Writer) error { return write(w, 0) },
		`"b": no data`: func(io.Writer) error { return errors.New("no data") },
	} {
		err := WriteFile(path, specs, func(i int, w io.Writer) error {
			if i == 0 {
				return write(w, 1)
			}
			return second(w)
		}, WriteOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("WriteFile = %v, want %q", err, want)
		}
		if got, _ := os.ReadFile(path); string(got) != "old" {
			t.Errorf("the old file is now %q", got)
		}
		if _, err := os.Stat(path + tempSuffix); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the temporary file exists after the error: %v", err)
		}
	}
}

func TestWriteFileRefuses(t *testing.T) {
	u8 := Info{U8, []int{1}}
	for want, specs := range map[string][]Spec{
		"declared twice":      {{"a", u8}, {"a", u8}},
		"invalid tensor name": {{metadataKey, u8}},
		"F8_E4M3":             {{"a", Info{"F8_E4M3", []int{1}}}},
		"negative":            {{"a", Info{U8, []int{-1}}}},
		"too large":           {{"a", Info{U8, []int{1 << 62}}}, {"b", Info{U8, []int{1 << 62}}}},
		`name "\xff"`:         {{"\xff", u8}},
	} {
		dir := t.TempDir()
		if err := WriteFile(filepath.Join(dir, "x"), specs, nil, WriteOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("WriteFile = %v, want %q", err, want)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: files left after the error: %v", want, left)
		}
	}
}

// TestReferenceReads reads a written file with the reference implementation, if
// build/peer is a Python environment that has it.
func TestReferenceReads(t *testing.T) {
	python := filepath.Join("..", "..", "build", "peer", "bin", "python")
	if err := exec.Command(python, "-c", "import numpy, safetensors").Run(); err != nil {
		t.Skipf("%s with numpy and safetensors is not installed: %v", python, err)
	}
	dir := t.TempDir()
	specs := []Spec{{"x é", Info{F32, []int{1, 2}}}, {"y", Info{BF16, nil}}, {"z", Info{Bool, []int{3}}}}
	data := map[string][]byte{"x é": le(t, []float32{1, -2}), "y": le(t, uint16(0x3f80)), "z": {1, 0, 1}}
	if err := WriteFolder(dir, specs, fetcher(specs, data), WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command(python, "testdata/check.py", filepath.Join(dir, SingleFile)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	const want = "metadata {'format': 'pt'}\nx é F32 [1, 2] [1.0, -2.0]\ny BF16 [] \nz BOOL [3] [True, False, True]\n"
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
