package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/openmanus/openmanus/torch/safetensors"
)

// A saved batch is a folder:
//
//	rows.safetensors   input_ids I32 [N], loss_mask U8 [N]: the rows one after
//	                   another; each per-token field F32 [M], of the rows that
//	                   have it
//	batch.json         meta, and for each row its facts, its length and which
//	                   fields it has; the SHA-256 of rows.safetensors
//
// DataProto pickles itself, which runs code when it is read. Nothing here does,
// and what a file claims is checked before it is believed.
const (
	batchFormat  = "openmanus-batch"
	batchVersion = 1
	batchTensors = "rows.safetensors"
	batchFacts   = "batch.json"

	maxBatchFacts = 1 << 30
	maxBatchRows  = 1 << 22

	idsTensor  = "input_ids"
	maskTensor = "loss_mask"
)

type batchHeader struct {
	Format  string            `json:"format"`
	Version int               `json:"version"`
	SHA256  string            `json:"sha256"` // of the tensors
	Meta    map[string]string `json:"meta,omitempty"`
	Rows    []batchRow        `json:"rows"`
}

type batchRow struct {
	UID           string       `json:"uid"`
	TaskID        string       `json:"task_id"`
	Env           string       `json:"env"`
	Index         int          `json:"index"`
	Sample        int          `json:"sample"`
	Seed          uint64       `json:"seed,string"` // a number of JSON has 53 bits for many readers
	WeightVersion int64        `json:"weight_version"`
	Context       int          `json:"context,omitempty"`
	Contexts      int          `json:"contexts,omitempty"`
	Score         float64      `json:"score"`
	EnvReward     float64      `json:"env_reward,omitempty"`
	Parts         []RewardPart `json:"parts,omitempty"`
	Baseline      *float64     `json:"baseline,omitempty"`
	Outcome       Outcome      `json:"outcome"`
	Tokens        int          `json:"tokens"`
	Fields        []string     `json:"fields,omitempty"`
	Turns         []Turn       `json:"turns,omitempty"`
	First         string       `json:"first_observation,omitempty"`
}

// Save writes the batch as a new folder, which appears complete or not at all.
// It must be sound (Validate) and hold a row; a folder that is there already
// is an error.
func (b Batch) Save(dir string) error {
	if err := b.save(dir); err != nil {
		return fmt.Errorf("save batch %s: %w", dir, err)
	}
	return nil
}

func (b Batch) save(dir string) (err error) {
	if len(b.Rows) == 0 {
		return errNoRows
	}
	if err := b.Validate(); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return errors.New("it exists: choose another folder")
	}
	temp := filepath.Clean(dir) + ".tmp"
	if err := os.RemoveAll(temp); err != nil { // of a process that died
		return err
	}
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	if err := b.writeTensors(filepath.Join(temp, batchTensors)); err != nil {
		return err
	}
	sum, err := fileSHA256(filepath.Join(temp, batchTensors))
	if err != nil {
		return err
	}
	h := batchHeader{Format: batchFormat, Version: batchVersion, SHA256: sum, Meta: b.Meta}
	for i := range b.Rows {
		r := &b.Rows[i]
		row := batchRow{
			UID: r.UID, TaskID: r.TaskID, Env: r.Env, Index: r.Index, Sample: r.Sample, Seed: r.Seed,
			WeightVersion: r.WeightVersion, Context: r.Context, Contexts: r.Contexts, Score: r.Score, EnvReward: r.EnvReward, Parts: r.Parts, Baseline: r.Baseline,
			Outcome: r.Outcome, Tokens: len(r.Tokens), Turns: r.Turns, First: r.FirstObservation,
		}
		for _, f := range r.floats() {
			if *f.values != nil {
				row.Fields = append(row.Fields, f.key())
			}
		}
		h.Rows = append(h.Rows, row)
	}
	text, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(temp, batchFacts), append(text, '\n')); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

// writeTensors writes the per-token values of all rows.
func (b Batch) writeTensors(path string) error {
	ids, mask := []byte{}, []byte{}
	fields := map[string][]byte{}
	for i := range b.Rows {
		r := &b.Rows[i]
		for _, id := range r.Tokens {
			ids = binary.LittleEndian.AppendUint32(ids, uint32(id))
		}
		mask = append(mask, r.Mask...)
		for _, f := range r.floats() {
			for _, x := range *f.values {
				fields[f.key()] = binary.LittleEndian.AppendUint32(fields[f.key()], math.Float32bits(x))
			}
		}
	}
	bytes := map[string][]byte{idsTensor: ids, maskTensor: mask}
	specs := []safetensors.Spec{
		{Name: idsTensor, Info: safetensors.Info{DType: safetensors.I32, Shape: []int64{int64(len(ids) / 4)}}},
		{Name: maskTensor, Info: safetensors.Info{DType: safetensors.U8, Shape: []int64{int64(len(mask))}}},
	}
	for key, values := range fields {
		bytes[key] = values
		specs = append(specs, safetensors.Spec{Name: key, Info: safetensors.Info{DType: safetensors.F32, Shape: []int64{int64(len(values) / 4)}}})
	}
	w, err := safetensors.Create(path, specs, safetensors.WriteOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	for name, values := range bytes {
		if err := w.Tensor(name, values); err != nil {
			return err
		}
	}
	return w.Commit()
}

// LoadBatch reads what Save wrote. The files are not trusted: hashes, sizes and
// every row are checked, and nothing is allocated beyond what the files hold.
func LoadBatch(dir string) (Batch, error) {
	b, err := loadBatch(dir)
	if err != nil {
		return Batch{}, fmt.Errorf("load batch %s: %w", dir, err)
	}
	return b, nil
}

func loadBatch(dir string) (Batch, error) {
	h, err := readBatchFacts(filepath.Join(dir, batchFacts))
	if err != nil {
		return Batch{}, fmt.Errorf("%s: %w", batchFacts, err)
	}
	path := filepath.Join(dir, batchTensors)
	sum, err := fileSHA256(path)
	if err != nil {
		return Batch{}, err
	}
	if sum != h.SHA256 {
		return Batch{}, fmt.Errorf("%s is corrupt: its SHA-256 is not that in %s", batchTensors, batchFacts)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return Batch{}, err
	}
	defer f.Close()
	t := &batchReader{f: f, at: map[string]int{}}
	b := Batch{Meta: h.Meta, Rows: make([]Row, 0, len(h.Rows))}
	for i, row := range h.Rows {
		r, err := t.row(row)
		if err != nil {
			return Batch{}, fmt.Errorf("row %d: %w", i, err)
		}
		b.Rows = append(b.Rows, r)
	}
	if err := t.drained(); err != nil {
		return Batch{}, err
	}
	return b, b.Validate()
}

func readBatchFacts(path string) (h batchHeader, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxBatchFacts {
		return h, errors.Join(err, fmt.Errorf("it is no file of at most %d bytes", maxBatchFacts))
	}
	d := json.NewDecoder(io.LimitReader(f, maxBatchFacts))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, err
	}
	if d.More() {
		return h, errors.New("something follows the object")
	}
	switch {
	case h.Format != batchFormat:
		return h, errors.New("it is not that of a batch")
	case h.Version != batchVersion:
		return h, fmt.Errorf("it has version %d, this program reads version %d", h.Version, batchVersion)
	case len(h.Rows) == 0:
		return h, errNoRows
	case len(h.Rows) > maxBatchRows:
		return h, fmt.Errorf("%d rows are more than %d", len(h.Rows), maxBatchRows)
	}
	return h, nil
}

// batchReader takes the rows' values off the tensors, one row after another.
type batchReader struct {
	f  *safetensors.File
	at map[string]int // elements of a tensor that were taken
}

func (t *batchReader) row(row batchRow) (Row, error) {
	r := Row{
		UID: row.UID, TaskID: row.TaskID, Env: row.Env, Index: row.Index, Sample: row.Sample, Seed: row.Seed,
		WeightVersion: row.WeightVersion, Context: row.Context, Contexts: row.Contexts, Score: row.Score, EnvReward: row.EnvReward, Parts: row.Parts, Baseline: row.Baseline,
		Outcome: row.Outcome, Turns: row.Turns, FirstObservation: row.First,
	}
	ids, err := t.take(idsTensor, safetensors.I32, row.Tokens)
	if err != nil {
		return r, err
	}
	for b := range slices.Chunk(ids, 4) {
		r.Tokens = append(r.Tokens, int32(binary.LittleEndian.Uint32(b)))
	}
	mask, err := t.take(maskTensor, safetensors.U8, row.Tokens)
	if err != nil {
		return r, err
	}
	r.Mask = slices.Clone(mask)
	for i, key := range row.Fields {
		if slices.Contains(row.Fields[:i], key) {
			return r, fmt.Errorf("field %q is there twice", key)
		}
		into, err := r.field(key)
		if err != nil {
			return r, err
		}
		values, err := t.take(key, safetensors.F32, row.Tokens)
		if err != nil {
			return r, err
		}
		*into = make([]float32, 0, row.Tokens)
		for b := range slices.Chunk(values, 4) {
			*into = append(*into, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	}
	return r, nil
}

// take returns the bytes of the next n elements of a tensor.
func (t *batchReader) take(name string, dtype safetensors.DType, n int) ([]byte, error) {
	info, values, err := t.f.Tensor(name)
	if err != nil {
		return nil, err
	}
	if info.DType != dtype || len(info.Shape) != 1 {
		return nil, fmt.Errorf("%s is %s%v, want %s in one dimension", name, info.DType, info.Shape, dtype)
	}
	from, left := t.at[name], int(info.Shape[0])-t.at[name]
	if n < 1 || n > left {
		return nil, fmt.Errorf("it has %d tokens, %s has %d left", n, name, left)
	}
	t.at[name] += n
	return values[from*dtype.Size() : (from+n)*dtype.Size()], nil
}

// drained verifies that the rows took everything.
func (t *batchReader) drained() error {
	for _, name := range t.f.Names() {
		info, _ := t.f.Info(name)
		if len(info.Shape) != 1 || int64(t.at[name]) != info.Shape[0] {
			return fmt.Errorf("%s holds %v values, the rows have %d of them", name, info.Shape, t.at[name])
		}
	}
	return nil
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writeSynced writes a file whose content is durable when it returns.
func writeSynced(path string, text []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// key is the field's name in files and in arguments: old_log_probs.
func (f floatField) key() string {
	var b strings.Builder
	for i, r := range f.name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// field finds a per-token field of a row.
func (r *Row) field(key string) (*[]float32, error) {
	var known []string
	for _, f := range r.floats() {
		if f.key() == key {
			return f.values, nil
		}
		known = append(known, f.key())
	}
	return nil, fmt.Errorf("batch: rows have no field %q; there are %s", key, strings.Join(known, ", "))
}

// errNoRows is returned where an empty batch has no meaning.
var errNoRows = errors.New("it has no rows")
