package payload

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"
)

// ErrDamaged means that an archive or an unpacked file differs from what was packed.
var ErrDamaged = errors.New("damaged")

// maxWindow limits the memory of the decompressor.
const maxWindow = 64 << 20

// Extract unpacks the archive into dir, which it creates, and returns the list of its files. The caller removes dir after an
// error.
func (p *Payload) Extract(dir string) (Manifest, error) {
	if err := p.needSpace(path.Dir(dir)); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir) // rejects names that lead out of dir
	if err != nil {
		return nil, err
	}
	defer root.Close()
	sum := sha256.New()
	in := io.TeeReader(p.archive(), sum)
	z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	files, err := untar(root, z)
	if err != nil {
		return nil, err
	}
	// The sum includes the bytes after the end of the tar file. The decompressor reads in from another goroutine until its end.
	for _, rest := range []io.Reader{z, in} {
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return nil, fmt.Errorf("the archive is %w: %w; download the executable again", ErrDamaged, err)
		}
	}
	if got := [sha256.Size]byte(sum.Sum(nil)); got != p.SHA256 {
		return nil, fmt.Errorf("the archive is %w: its SHA-256 is %x, want %x; download the executable again", ErrDamaged, got, p.SHA256)
	}
	return files, syncDir(dir)
}

// needSpace returns an error if the file system of dir has no space for the files.
func (p *Payload) needSpace(dir string) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return fmt.Errorf("free space of %s: %w", dir, err)
	}
	need, free := p.Unpacked+p.Unpacked/50, s.Bavail*uint64(s.Bsize)
	if free < need {
		return fmt.Errorf("%s has %d MB free, the program needs %d MB: %w", dir, free>>20, (need>>20)+1, syscall.ENOSPC)
	}
	return nil
}

// untar writes the files of a tar file below root, without the first folder of their names. Anything but a folder or a
// regular file is an error.
func untar(root *os.Root, in io.Reader) (Manifest, error) {
	var files Manifest
	for t := tar.NewReader(in); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the archive is %w: %w; download the executable again", ErrDamaged, err)
		}
		full := strings.TrimSuffix(h.Name, "/")
		if !fs.ValidPath(full) { // absolute, or with ..
			return nil, fmt.Errorf("the archive is %w: it contains %q", ErrDamaged, h.Name)
		}
		_, name, _ := strings.Cut(full, "/")
		if name == "" && h.Typeflag == tar.TypeDir {
			continue
		}
		switch h.Typeflag {
		case tar.TypeDir:
			if err := root.MkdirAll(name, 0o700); err != nil {
				return nil, err
			}
		case tar.TypeReg:
			f, err := write(root, name, h, t)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		default:
			return nil, fmt.Errorf("the archive is %w: %s is neither a folder nor a regular file", ErrDamaged, h.Name)
		}
	}
}

// write writes one file and syncs it.
func write(root *os.Root, name string, h *tar.Header, in io.Reader) (File, error) {
	mode := os.FileMode(0o400)
	if h.Mode&0o100 != 0 {
		mode = 0o500
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return File{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), in)
	if err != nil && !errors.As(err, new(*os.PathError)) { // not the disk
		err = fmt.Errorf("the archive is %w: %w; download the executable again", ErrDamaged, err)
	}
	if err == nil {
		err = f.Sync()
	}
	return File{Name: name, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, errors.Join(err, f.Close())
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
