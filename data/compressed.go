package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdMagic begins every zstd frame (RFC 8878, 3.1.1).
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// maxZstdWindow bounds the memory that a compressed file may ask for.
const maxZstdWindow = 128 << 20

// plainText reads text that may be compressed with zstd, which is found out
// from its first bytes and not from a file's name. Frames may follow each
// other. It starts no goroutine.
type plainText struct {
	io.Reader
	dec *zstd.Decoder // nil where the text is not compressed
}

func newPlainText(in io.Reader) (*plainText, error) {
	b := bufio.NewReaderSize(in, 1<<16)
	begin, err := b.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(begin, zstdMagic) {
		return &plainText{Reader: b}, nil
	}
	dec, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return &plainText{Reader: dec, dec: dec}, nil
}

// Read reads text. A compressed file that ends inside a frame gives all that
// can be told of it and then io.ErrUnexpectedEOF.
func (p *plainText) Read(buf []byte) (int, error) {
	n, err := p.Reader.Read(buf)
	if err != nil && p.dec != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("decompress: %w", err)
	}
	return n, err
}

func (p *plainText) compressed() bool { return p.dec != nil }

// Close frees the decompressor; it does not close what is read from.
func (p *plainText) Close() {
	if p.dec != nil {
		p.dec.Close()
	}
}
