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

// A compressed text may be freeExpansion bytes and maxExpansion times as long
// as what was read of the file. Text seldom compresses to a hundredth; a file
// beyond this was likely made to keep its reader busy.
const (
	freeExpansion = 64 << 20
	maxExpansion  = 500
)

var errExpansion = fmt.Errorf("the text is more than %d times as long as the compressed file, as in a decompression bomb: "+
	"if the file is sound, decompress it with zstd -d and give the result", maxExpansion)

// plainText reads text that may be compressed with zstd, which is found out
// from its first bytes and not from a file's name. Frames may follow each
// other. It starts no goroutine.
type plainText struct {
	io.Reader
	dec    *zstd.Decoder // nil where the text is not compressed
	packed *countingReader
	length int64 // of the text so far
}

// countingReader counts the bytes that were read through it.
type countingReader struct {
	io.Reader
	n int64
}

func (r *countingReader) Read(buf []byte) (int, error) {
	n, err := r.Reader.Read(buf)
	r.n += int64(n)
	return n, err
}

func newPlainText(in io.Reader) (*plainText, error) {
	packed := &countingReader{Reader: in}
	b := bufio.NewReaderSize(packed, 1<<16)
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
	return &plainText{Reader: dec, dec: dec, packed: packed}, nil
}

// Read reads text. A compressed file that ends inside a frame gives all that
// can be told of it and then io.ErrUnexpectedEOF.
func (p *plainText) Read(buf []byte) (int, error) {
	n, err := p.Reader.Read(buf)
	if p.dec != nil {
		if p.length += int64(n); p.length > freeExpansion+maxExpansion*p.packed.n {
			return 0, errExpansion
		}
	}
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
