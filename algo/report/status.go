package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
)

// State is the state of a run.
type State string

// The states of a run.
const (
	Running     State = "running"     // a process holds the lock of the folder
	Finished    State = "finished"    // all steps are done
	Interrupted State = "interrupted" // the process was stopped or killed; the same command resumes the run
	Failed      State = "failed"      // an error ended the run
)

// Status describes how far a run is.
type Status struct {
	State   State        `json:"state"`
	Reason  string       `json:"reason,omitempty"` // error that ended the run
	Step    int          `json:"step"`             // last finished training step
	Began   time.Time    `json:"began,omitzero"`
	Updated time.Time    `json:"updated,omitzero"` // newest change of the metrics or the log
	Best    *rundir.Best `json:"best,omitempty"`   // best validation in the newest checkpoint
}

// StatusOf returns the status of the run in a folder.
func StatusOf(dir string) (Status, error) {
	folder := &rundir.Folder{Dir: dir}
	var st Status
	for _, path := range []string{folder.Config(), folder.Metrics(), folder.Log()} {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(st.Updated) {
			st.Updated = info.ModTime()
		}
	}
	held, err := checkpoint.Held(dir)
	if err != nil {
		return st, err
	}
	saved, err := newestState(folder)
	if err != nil {
		return st, err
	}
	st.Step, st.Best = saved.Step, saved.Best
	log, err := readLog(folder.Log())
	if err != nil {
		return st, err
	}
	st.Began = log.began
	switch {
	case held:
		st.State = Running
	case log.ended && log.reason != "" && !log.interrupted:
		st.State, st.Reason = Failed, log.reason
	case saved.Finished:
		st.State = Finished
	case log.ended || log.empty:
		st.State = Interrupted
	default:
		st.State, st.Reason = Interrupted, "the process was killed: the log has no end"
	}
	return st, nil
}

// newestState returns the state of the newest checkpoint, or a zero State.
func newestState(folder *rundir.Folder) (rundir.State, error) {
	list, err := checkpoint.List(folder.Checkpoints())
	if err != nil || len(list) == 0 {
		return rundir.State{}, err
	}
	st, err := rundir.ReadState(list[len(list)-1].Path)
	if errors.Is(err, fs.ErrNotExist) { // the running process has just removed the checkpoint
		return rundir.State{}, nil
	}
	return st, err
}

// logFacts are the facts that run.log tells about the newest process.
type logFacts struct {
	empty       bool // there is no log
	began       time.Time
	ended       bool
	reason      string // error of the end
	interrupted bool
}

// logTail bounds the bytes at the end of run.log that are searched for the end of the run.
const logTail = 256 << 10

func readLog(path string) (logFacts, error) {
	facts := logFacts{empty: true}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return facts, nil
	}
	if err != nil {
		return facts, fmt.Errorf("read the log of the run: %w", err)
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return facts, fmt.Errorf("read the log of the run: %w", err)
	}
	if first, _, ok := bytes.Cut(head, []byte{'\n'}); ok {
		facts.began = parseRecord(first).Time
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(0, size-logTail), io.SeekStart)
	}
	var tail []byte
	if err == nil {
		tail, err = io.ReadAll(f)
	}
	if err != nil {
		return facts, fmt.Errorf("read the log of the run: %w", err)
	}
	for line := range bytes.Lines(tail) {
		facts.empty = false
		switch r := parseRecord(line); r.Msg {
		case "run": // a process has opened the folder
			facts.ended, facts.reason, facts.interrupted = false, "", false
		case "the run ended":
			facts.ended, facts.reason = true, r.Error
			facts.interrupted = strings.HasPrefix(r.Error, "interrupted")
		}
	}
	return facts, nil
}

// record is a line of run.log.
type record struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	Msg   string    `json:"msg"`
	Error string    `json:"error"`
}

// parseRecord returns an empty record for a line that is not a record, such as an incomplete one.
func parseRecord(line []byte) record {
	var r record
	if json.Unmarshal(line, &r) != nil {
		return record{}
	}
	return r
}

// Size returns the number of bytes of the files in a folder.
func Size(dir string) (int64, error) {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			if errors.Is(err, fs.ErrNotExist) { // a running process removes files
				err = nil
			}
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	return size, err
}
