package data

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/torch/safetensors"
)

// savedBatch has rows of different lengths of which only some have a field.
func savedBatch(t *testing.T) Batch {
	t.Helper()
	b := testBatch(t, 3)
	b.Rows[1].Rewards = []float32{0, 1.5, -2, 0, float32(math.Pi), 0}
	b.Rows[1].Seed = math.MaxUint64
	b.Rows[2] = Row{UID: "recorded", Tokens: []int32{7, 8}, Mask: []uint8{0, 1}, Outcome: Success}
	return b
}

// savedAndLoaded writes b to dir and gives what is read from there, which is b.
func savedAndLoaded(t *testing.T, b Batch, dir string) Batch {
	t.Helper()
	if err := b.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := LoadBatch(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(b, got); d != "" {
		t.Errorf("(-saved +loaded):\n%s", d)
	}
	return got
}

func TestBatchSaveLoad(t *testing.T) {
	b := savedBatch(t)
	dir := filepath.Join(t.TempDir(), "deep", "batch")
	savedAndLoaded(t, b, dir)
	if err := b.Save(dir); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("a second save: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("beside the batch: %v (%v)", left, err)
	}
}

// fill sets everything in v to values that are not its zero, each its own.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n) + .5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	default:
		t.Fatalf("a %s in a row: teach this test about it", v.Type())
	}
}

// A field of a row that is not saved would be lost without a word.
func TestBatchSaveLoadsEveryField(t *testing.T) {
	var r Row
	n := 0
	fill(t, reflect.ValueOf(&r).Elem(), &n)
	r.Mask = []uint8{1, 1} // what a sound row asks for, and nothing of it is 0
	r.Context, r.Contexts = 1, 2
	for i := range r.Turns {
		r.Turns[i].Start, r.Turns[i].End = i, i+1
		r.Turns[i].Kept = []TokenSet{NewTokenSet([]int32{r.Tokens[i], r.Tokens[i] + 5})}
	}
	b := Batch{Rows: []Row{r}, Meta: map[string]string{"step": "1"}}
	dir := filepath.Join(t.TempDir(), "batch")
	got := savedAndLoaded(t, b, dir)
	v := reflect.ValueOf(got.Rows[0])
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("a loaded row has lost %s", v.Type().Field(i).Name)
		}
	}
}

func TestBatchSaveRefuses(t *testing.T) {
	bad := savedBatch(t)
	bad.Rows[0].Mask = bad.Rows[0].Mask[1:]
	for name, b := range map[string]Batch{"no rows": {}, "Mask has": bad} {
		dir := filepath.Join(t.TempDir(), "batch")
		if err := b.Save(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
		if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 0 {
			t.Errorf("%s: left %v (%v)", name, left, err)
		}
	}
}

// Files that lie are errors, whatever they say.
func TestHostileBatch(t *testing.T) {
	type object = map[string]any
	row := func(h object, i int) object { return h["rows"].([]any)[i].(object) }
	for _, c := range []struct {
		name, want string
		change     func(h object)
	}{
		{"another format", "not that of a batch", func(h object) { h["format"] = "pickle" }},
		{"another version", "version 2", func(h object) { h["version"] = 2 }},
		{"unknown key", "unknown field", func(h object) { h["code"] = "x" }},
		{"another hash", "corrupt", func(h object) { h["sha256"] = strings.Repeat("0", 64) }},
		{"no rows", "no rows", func(h object) { h["rows"] = []any{} }},
		{"one row less", "the rows have", func(h object) { h["rows"] = h["rows"].([]any)[:2] }},
		{"too many tokens", "left", func(h object) { row(h, 2)["tokens"] = 3 }},
		{"a great many tokens", "left", func(h object) { row(h, 0)["tokens"] = math.MaxInt32 }},
		{"negative tokens", "left", func(h object) { row(h, 0)["tokens"] = -6 }},
		{"no tokens", "left", func(h object) { row(h, 0)["tokens"] = 0 }},
		{"unknown field", "no field", func(h object) { row(h, 0)["fields"] = []any{"input_ids"} }},
		{"field without values", "no tensor", func(h object) { row(h, 0)["fields"] = []any{"rollout_log_probs", "values"} }},
		{"field twice", "twice", func(h object) { row(h, 1)["fields"] = []any{"rewards", "rewards"} }},
		{"turns outside the row", "spans tokens", func(h object) { row(h, 0)["turns"] = []any{object{"start": 1, "end": 90}} }},
		{"text", "invalid character", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "batch")
			if err := savedBatch(t).Save(dir); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, batchFacts)
			text := []byte("<html>")
			if c.change != nil {
				var h object
				b, err := os.ReadFile(path)
				if err == nil {
					err = json.Unmarshal(b, &h)
				}
				if err != nil {
					t.Fatal(err)
				}
				c.change(h)
				if text, err = json.Marshal(h); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadBatch(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Tensors of another shape or type than the rows need are refused even where
// the hash is theirs.
func TestHostileBatchTensors(t *testing.T) {
	for name, info := range map[string]safetensors.Info{
		"two dimensions": {DType: safetensors.I32, Shape: []int64{2, 7}},
		"another type":   {DType: safetensors.F32, Shape: []int64{14}},
	} {
		dir := filepath.Join(t.TempDir(), "batch")
		if err := savedBatch(t).Save(dir); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, batchTensors)
		w, err := safetensors.Create(path, []safetensors.Spec{{Name: idsTensor, Info: info}}, safetensors.WriteOptions{})
		if err == nil {
			err = w.Tensor(idsTensor, make([]byte, 56))
		}
		if err == nil {
			err = w.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
		sum, err := fileSHA256(path)
		if err != nil {
			t.Fatal(err)
		}
		facts, err := os.ReadFile(filepath.Join(dir, batchFacts))
		if err != nil {
			t.Fatal(err)
		}
		var h batchHeader
		if err := json.Unmarshal(facts, &h); err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(facts), h.SHA256, sum, 1)
		if err := os.WriteFile(filepath.Join(dir, batchFacts), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadBatch(dir); err == nil || !strings.Contains(err.Error(), "want I32") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
