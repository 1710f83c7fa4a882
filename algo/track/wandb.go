package track

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/openmanus/openmanus/data/registry"
)

// Offline runs of W&B, which `wandb sync` uploads. A .wandb file is ":W&B", the magic number 0xBEE1 and the version 0,
// followed by a log of records in the format of LevelDB (doc/log_format.md), but with the plain CRC-32 of zlib:
//
//	uint32 CRC-32 of type and data | uint16 length | uint8 type (1 full, 2 first, 3 middle, 4 last) | data
//
// in little-endian order, in blocks of 32 KiB. A record does not cross a block, and the last bytes of a block that cannot
// hold a record's header are zero. The data is a Record (wandb/proto/wandb_internal.proto). The fields in use:
//
//	Record         1 num, 2 history, 3 summary, 12 metric, 17 run, 18 exit, 21 header
//	HeaderRecord   1 version_info {1 producer, 2 min_consumer}
//	RunRecord      1 run_id, 2 entity, 3 project, 4 config, 6 run_group, 8 display_name, 10 tags (repeated), 17 start_time {1 seconds, 2 nanos}
//	ConfigRecord   1 update {1 key, 16 value_json} (repeated)
//	MetricRecord   1 name, 4 step_metric, 6 options {3 defined}
//	HistoryRecord  1 item {2 nested_key, 16 value_json} (repeated), 2 step {1 num}
//	SummaryRecord  1 update {2 nested_key, 16 value_json} (repeated)
//	RunExitRecord  1 exit_code, 2 runtime

func init() {
	Sinks.Add(registry.Entry{Name: "wandb", Doc: "an offline run of W&B in the run folder's wandb, which `wandb sync` uploads"}, func(_ context.Context, r Run) (Sink, error) {
		_, err := r.settings()
		return &offlineRun{run: r, stepMetric: map[string]string{}}, err
	})
}

// offlineRun writes a .wandb file. Its steps are the numbers of the lines, because W&B requires
// steps that increase. Each metric has the steps of its phase as its axis.
type offlineRun struct {
	run        Run
	log        *recordLog // nil before the first line
	began      float64    // time of the first line
	latest     float64    // time of the latest line
	lines      int64
	records    int64
	stepMetric map[string]string // axis of every metric written so far
}

// Write appends a line.
func (s *offlineRun) Write(l Line) error {
	if err := s.write(l); err != nil {
		return fmt.Errorf("write wandb: %w", err)
	}
	return nil
}

func (s *offlineRun) write(l Line) error {
	s.latest = l.seconds()
	if s.log == nil {
		if err := s.create(l); err != nil {
			return err
		}
	}
	axis := map[Phase]string{PhaseTrain: GlobalStep, PhaseSFT: SFTStep, PhaseRead: ReadStep}[l.Phase]
	if axis == "" {
		axis = string(l.Phase) + "/step"
	}
	values := map[string]float64{axis: float64(l.Step)}
	for metric, x := range l.Metrics {
		values[l.Name(metric)] = x
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == axis || s.stepMetric[name] != "" {
			continue
		}
		s.stepMetric[name] = axis
		defined := message(nil).integer(3, 1)
		s.add(12, message(nil).text(1, name).text(4, axis).bytes(6, defined))
	}
	values["_step"], values["_timestamp"], values["_runtime"] = float64(s.lines), s.latest, s.latest-s.began
	var items message
	for _, name := range slices.Sorted(maps.Keys(values)) {
		items = items.bytes(1, message(nil).text(2, name).text(16, jsonNumber(values[name])))
	}
	s.add(3, items)
	s.add(2, items.bytes(2, message(nil).integer(1, s.lines)))
	s.lines++
	return s.log.flush()
}

// jsonNumber returns a number as W&B writes it to JSON.
func jsonNumber(x float64) string {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 0):
		return strings.TrimPrefix(strconv.FormatFloat(x, 'g', -1, 64), "+") + "inity"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// create replaces the files of an earlier process. The run keeps its id, so that
// `wandb sync` uploads to the same run.
func (s *offlineRun) create(first Line) error {
	s.began = first.seconds()
	const prefix = "offline-run-"
	dir := filepath.Join(s.run.Folder, "wandb")
	old, err := filepath.Glob(filepath.Join(dir, prefix+"*-*"))
	if err != nil {
		return err
	}
	id := rand.Text()[:8]
	if len(old) > 0 {
		id = old[0][strings.LastIndexByte(old[0], '-')+1:]
	}
	id = strings.ToLower(id)
	for _, path := range old {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	dir = filepath.Join(dir, prefix+time.Unix(int64(s.began), 0).UTC().Format("20060102_150405")+"-"+id)
	if err := os.MkdirAll(filepath.Join(dir, "files"), 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "run-"+id+".wandb"))
	if err != nil {
		return err
	}
	s.log = newRecordLog(f)
	s.add(21, message(nil).bytes(1, message(nil).text(1, "openmanus").text(2, "0.13.0")))
	settings, err := s.run.settings()
	if err != nil {
		return err
	}
	var config message
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		value, err := json.Marshal(settings[key])
		if err != nil {
			return err
		}
		config = config.bytes(1, message(nil).text(1, key).bytes(16, value))
	}
	env := s.run.Getenv
	run := message(nil).text(1, id).text(3, cmp.Or(env("WANDB_PROJECT"), project(settings))).bytes(4, config).text(8, s.run.Name)
	if entity := env("WANDB_ENTITY"); entity != "" {
		run = run.text(2, entity)
	}
	if group := env("WANDB_RUN_GROUP"); group != "" {
		run = run.text(6, group)
	}
	for tag := range strings.SplitSeq(env("WANDB_TAGS"), ",") {
		if tag != "" {
			run = run.text(10, tag)
		}
	}
	s.add(17, run.bytes(17, message(nil).integer(1, int64(s.began)).integer(2, int64(math.Mod(s.began, 1)*1e9))))
	return nil
}

// add appends a Record with one field.
func (s *offlineRun) add(field protowire.Number, m message) {
	s.records++
	s.log.append(message(nil).integer(1, s.records).bytes(field, m))
}

// Close ends the run, makes the file durable and closes it.
func (s *offlineRun) Close() error {
	if s.log == nil {
		return nil
	}
	// As in a shell, the exit code is 0 only for a finished run. W&B shows a run without an exit as crashed.
	if code, over := map[End]int64{Finished: 0, Interrupted: 130, Failed: 1}[s.run.ended()]; over {
		s.add(18, message(nil).integer(1, code).integer(2, int64(s.latest-s.began)))
	}
	if err := errors.Join(s.log.flush(), s.log.f.Sync(), s.log.f.Close()); err != nil {
		return fmt.Errorf("write wandb: %w", err)
	}
	return nil
}

// The sizes of a .wandb file's parts.
const (
	blockSize  = 32 << 10
	headerSize = 7 // of the file and of a record
)

// recordLog is a file of records.
type recordLog struct {
	f       *os.File
	size    int    // length of the file and of pending
	pending []byte // records that flush writes
}

func newRecordLog(f *os.File) *recordLog {
	return &recordLog{f: f, size: headerSize, pending: []byte{':', 'W', '&', 'B', 0xe1, 0xbe, 0}}
}

// append appends data in one or several records.
func (l *recordLog) append(data []byte) {
	for first := true; ; first = false {
		left := blockSize - l.size%blockSize
		if left < headerSize {
			l.pending = append(l.pending, make([]byte, left)...)
			l.size += left
			left = blockSize
		}
		n := min(len(data), left-headerSize)
		last := n == len(data)
		kind := byte(3)
		switch {
		case first && last:
			kind = 1
		case first:
			kind = 2
		case last:
			kind = 4
		}
		crc := crc32.Update(crc32.ChecksumIEEE([]byte{kind}), crc32.IEEETable, data[:n])
		l.pending = binary.LittleEndian.AppendUint32(l.pending, crc)
		l.pending = binary.LittleEndian.AppendUint16(l.pending, uint16(n))
		l.pending = append(append(l.pending, kind), data[:n]...)
		l.size += headerSize + n
		if data = data[n:]; last {
			return
		}
	}
}

// flush writes the pending records to the file.
func (l *recordLog) flush() error {
	_, err := l.f.Write(l.pending)
	l.pending = l.pending[:0]
	return err
}
