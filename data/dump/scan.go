package dump

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// scan passes the complete lines of a dump to visit, each with the offset after it,
// where the file may be cut. The offset is 0 inside a frame of several lines. scan
// returns the offset after the last complete line or frame.
func scan(f *os.File, visit func(line []byte, end int64) error) (end int64, compressed bool, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	begin := make([]byte, len(zstdMagic))
	n, err := f.ReadAt(begin, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false, err
	}
	if n > 0 && string(begin[:n]) == string(zstdMagic[:n]) {
		end, err = scanFrames(f, st.Size(), visit)
		return end, true, err
	}
	r, err := NewLineReader(io.NewSectionReader(f, 0, st.Size()))
	if err != nil {
		return 0, false, err
	}
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return end, false, nil
		}
		if err == nil {
			end += int64(len(line))
			err = visit(line, end)
		}
		if err != nil {
			return end, false, err
		}
	}
}

// scanFrames is scan for a compressed file.
func scanFrames(f *os.File, size int64, visit func(line []byte, end int64) error) (end int64, err error) {
	for end < size {
		n, err := zstdFrameSize(f, end, size)
		if err != nil {
			return end, err
		}
		if n == 0 {
			return end, nil
		}
		if err := scanFrame(io.NewSectionReader(f, end, n), end+n, visit); err != nil {
			return end, fmt.Errorf("the frame at byte %d: %w", end, err)
		}
		end += n
	}
	return end, nil
}

func scanFrame(frame io.Reader, end int64, visit func(line []byte, end int64) error) error {
	r, err := NewLineReader(frame)
	if err != nil {
		return err
	}
	defer r.Close()
	var held []byte // the previous line, visited once it is known whether it is the last of the frame
	for {
		line, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && r.Torn():
			return errors.New("its last line is incomplete or continues in the next frame: decompress the file and continue the plain file")
		case errors.Is(err, io.EOF) && held == nil:
			return nil
		case errors.Is(err, io.EOF):
			return visit(held, end)
		case err != nil:
			return err
		}
		if held != nil {
			if err := visit(held, 0); err != nil {
				return err
			}
		}
		held = append(held[:0:0], line...)
	}
}
