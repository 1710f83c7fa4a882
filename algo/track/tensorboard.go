package track

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"github.com/openmanus/openmanus/data/registry"
)

// Event files of TensorBoard. A file is a sequence of TFRecords (tensorflow/core/lib/io/record_writer.cc):
//
//	uint64 length | uint32 masked CRC-32C of the length | data | uint32 masked CRC-32C of data
//
// in little-endian order. The data is an Event (tensorboard/compat/proto/event.proto). The fields in use:
//
//	Event        1 wall_time (double), 2 step, 3 file_version, 5 summary, 7 session_log
//	SessionLog   1 status (1: start)
//	Summary      1 value (repeated)
//	Value        1 tag, 2 simple_value (float), 8 tensor, 9 metadata
//	Metadata     1 plugin_data {1 plugin_name}
//	TensorProto  1 dtype (7: string), 2 shape {2 dim {1 size}}, 8 string_val

func init() {
	Sinks.Add(registry.Entry{Name: "tensorboard", Doc: "an event file in the run folder's tensorboard"}, func(_ context.Context, r Run) (Sink, error) {
		return &eventFile{dir: filepath.Join(r.Folder, "tensorboard"), config: r.Config}, nil
	})
}

// eventFile writes an event file of scalars.
type eventFile struct {
	dir    string
	config string
	f      *os.File // nil before the first line
}

// eventSuffix ends the names of this sink's files.
const eventSuffix = ".openmanus"

// Write appends an event with the line's metrics.
func (s *eventFile) Write(l Line) error {
	var records []byte
	if s.f == nil {
		if err := s.create(); err != nil {
			return fmt.Errorf("write tensorboard: %w", err)
		}
		records = s.head(l)
	}
	var summary message
	for _, name := range l.names() {
		summary = summary.bytes(1, message(nil).text(1, l.Name(name)).float(2, float32(l.Metrics[name])))
	}
	records = appendRecord(records, message(nil).double(1, l.seconds()).integer(2, int64(l.Step)).bytes(5, summary))
	if _, err := s.f.Write(records); err != nil {
		return fmt.Errorf("write tensorboard: %w", err)
	}
	return nil
}

// create makes a new event file. It empties the files of earlier processes instead of
// removing them, because a running TensorBoard goes on to the next file only while the
// file that it reads exists. Empty files are removed.
func (s *eventFile) create() error {
	old, err := filepath.Glob(filepath.Join(s.dir, "events.out.tfevents.*"+eventSuffix))
	if err != nil {
		return err
	}
	for _, path := range old {
		info, err := os.Stat(path)
		if err == nil && info.Size() > 0 {
			err = os.Truncate(path, 0)
		} else if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	for at := time.Now().Unix(); ; at++ { // TensorBoard reads the files in the order of their names
		path := filepath.Join(s.dir, fmt.Sprintf("events.out.tfevents.%010d%s", at, eventSuffix))
		s.f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if !os.IsExist(err) {
			return err
		}
	}
}

// head returns the first records of a file: the version, the start of a session, and the
// configuration. A running TensorBoard drops the values that it has read from the files of earlier
// processes when a session starts, because their steps are not below the step 0 of the start.
func (s *eventFile) head(first Line) []byte {
	at := message(nil).double(1, first.seconds())
	records := appendRecord(nil, at.text(3, "brain.Event:2"))
	records = appendRecord(records, at.bytes(7, message(nil).integer(1, 1)))
	if s.config == "" {
		return records
	}
	shape := message(nil).bytes(2, message(nil).integer(1, 1))
	tensor := message(nil).integer(1, 7).bytes(2, shape).text(8, "```toml\n"+s.config+"```\n")
	metadata := message(nil).bytes(1, message(nil).text(1, "text"))
	value := message(nil).text(1, "config").bytes(8, tensor).bytes(9, metadata)
	return appendRecord(records, at.bytes(5, message(nil).bytes(1, value)))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC returns the CRC-32C in the form of TFRecord.
func maskedCRC(b []byte) uint32 {
	crc := crc32.Checksum(b, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// appendRecord appends a TFRecord.
func appendRecord(b, data []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b[start:]))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, maskedCRC(data))
}

// Close makes the file durable and closes it.
func (s *eventFile) Close() error {
	if s.f == nil {
		return nil
	}
	if err := errors.Join(s.f.Sync(), s.f.Close()); err != nil {
		return fmt.Errorf("write tensorboard: %w", err)
	}
	return nil
}
