package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrNone means that an executable carries no archive.
var ErrNone = errors.New("the executable carries no archive")

// magic begins the trailer. Its last byte is the version of the format.
var magic = [8]byte{'o', 'p', 'e', 'n', 'm', 'a', 'n', 1}

// trailer is the end of the executable.
type trailer struct {
	Offset   uint64 // of the archive in the executable
	Size     uint64 // of the archive
	Unpacked uint64 // sum of the sizes of the files
	SHA256   [sha256.Size]byte
	Magic    [8]byte // the last bytes of the executable
}

// Payload is the archive in an executable.
type Payload struct {
	file *os.File
	trailer
}

// Open opens the archive of the executable at path. The error is ErrNone if there is none.
func Open(path string) (*Payload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	p := &Payload{file: f}
	if err := p.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return p, nil
}

// read reads and checks the trailer.
func (p *Payload) read() error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	size, length := uint64(info.Size()), uint64(binary.Size(p.trailer))
	if size < length {
		return ErrNone
	}
	b := make([]byte, length)
	if _, err := p.file.ReadAt(b, int64(size-length)); err != nil {
		return err
	}
	if _, err := binary.Decode(b, binary.LittleEndian, &p.trailer); err != nil {
		return err
	}
	switch {
	case p.Magic != magic:
		return ErrNone
	case p.Offset > size || p.Size > size || p.Offset+p.Size+length != size:
		return fmt.Errorf("%w: its trailer does not fit its size of %d bytes", ErrNone, size)
	}
	return nil
}

// Close closes the executable.
func (p *Payload) Close() error { return p.file.Close() }

// Name returns the name of the folder that the archive is unpacked into.
func (p *Payload) Name() string { return hex.EncodeToString(p.SHA256[:8]) + "-linux-amd64" }

// archive returns a reader of the compressed archive.
func (p *Payload) archive() io.Reader {
	return io.NewSectionReader(p.file, int64(p.Offset), int64(p.Size))
}

// Write writes the executable that consists of a launcher and an archive. The argument unpacked is the sum of the sizes of
// the archive's files.
func Write(w io.Writer, launcher, archive []byte, unpacked int64) error {
	t := trailer{Offset: uint64(len(launcher)), Size: uint64(len(archive)), Unpacked: uint64(unpacked), SHA256: sha256.Sum256(archive), Magic: magic}
	var end bytes.Buffer
	if err := binary.Write(&end, binary.LittleEndian, t); err != nil {
		return err
	}
	for _, b := range [][]byte{launcher, archive, end.Bytes()} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}
