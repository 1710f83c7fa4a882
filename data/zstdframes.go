package data

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Sizes in a zstd frame (RFC 8878, 3.1.1).
const (
	zstdBlockHeader = 3
	zstdChecksum    = 4
	zstdRLE         = 1 // the type of a block that is one byte, repeated
)

// zstdFrameSize returns how many of the size bytes of in that begin at offset
// at are one whole frame; 0 if the file ends inside of it. It reads headers
// only: whether the contents are sound shows when they are decompressed.
func zstdFrameSize(in io.ReaderAt, at, size int64) (int64, error) {
	buf := make([]byte, zstd.HeaderMaxSize)
	n, err := in.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	var h zstd.Header
	switch err := h.Decode(buf[:n]); {
	case errors.Is(err, io.ErrUnexpectedEOF) && at+int64(n) == size:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("at byte %d: %w", at, err)
	}
	end := at + int64(h.HeaderSize)
	if h.Skippable {
		if end += int64(h.SkippableSize); end > size {
			return 0, nil
		}
		return end - at, nil
	}
	for last := false; !last; {
		if end+zstdBlockHeader > size {
			return 0, nil
		}
		var b [zstdBlockHeader]byte
		if _, err := in.ReadAt(b[:], end); err != nil {
			return 0, err
		}
		v := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16
		last = v&1 == 1
		length := v >> 3
		if v>>1&3 == zstdRLE {
			length = 1
		}
		end += zstdBlockHeader + length
	}
	if h.HasCheckSum {
		end += zstdChecksum
	}
	if end > size {
		return 0, nil
	}
	return end - at, nil
}
