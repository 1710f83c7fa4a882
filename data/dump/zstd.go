package dump

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

// maxZstdWindow limits the memory for decompression.
const maxZstdWindow = 128 << 20

// A decompressed text may have freeExpansion bytes plus maxExpansion times the
// bytes read of the file. Text seldom compresses to a hundredth of its size, so a
// file above the limit is likely a decompression bomb.
const (
	freeExpansion = 64 << 20
	maxExpansion  = 500
)

var ErrExpansion = fmt.Errorf("the text is more than %d times as long as the compressed file, like a decompression bomb: "+
	"if the file is sound, decompress it with zstd -d and use the result", maxExpansion)

// Text reads text that may be compressed with zstd, in one or more frames. It
// recognizes compression by the first bytes, and starts no goroutine.
type Text struct {
	io.Reader
	dec    *zstd.Decoder // nil if the text is not compressed
	packed *countingReader
	length int64 // bytes of text so far
}

// countingReader counts the bytes read through it.
type countingReader struct {
	io.Reader
	n int64
}

func (r *countingReader) Read(buf []byte) (int, error) {
	n, err := r.Reader.Read(buf)
	r.n += int64(n)
	return n, err
}

func NewText(in io.Reader) (*Text, error) {
	packed := &countingReader{Reader: in}
	b := bufio.NewReaderSize(packed, 1<<16)
	begin, err := b.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(begin, zstdMagic) {
		return &Text{Reader: b}, nil
	}
	dec, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return &Text{Reader: dec, dec: dec, packed: packed}, nil
}

// Read reads text. If a compressed file ends inside a frame, Read returns all text
// that can be decompressed and then io.ErrUnexpectedEOF.
func (p *Text) Read(buf []byte) (int, error) {
	n, err := p.Reader.Read(buf)
	if p.dec != nil {
		if p.length += int64(n); p.length > freeExpansion+maxExpansion*p.packed.n {
			return 0, ErrExpansion
		}
	}
	if err != nil && p.dec != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("decompress: %w", err)
	}
	return n, err
}

func (p *Text) Compressed() bool { return p.dec != nil }

// Close frees the decompressor. It does not close the underlying reader.
func (p *Text) Close() {
	if p.dec != nil {
		p.dec.Close()
	}
}
