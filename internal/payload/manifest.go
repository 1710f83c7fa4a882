package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// complete is the name of the manifest in a folder, which is written last.
const complete = ".complete"

// File is an unpacked file.
type File struct {
	Name   string `json:"name"` // relative to the folder, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Manifest lists the files of a folder.
type Manifest []File

// write writes the manifest of dir.
func (m Manifest) write(dir string) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, complete), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return syncDir(dir)
}

// readManifest reads the manifest of a folder from its file .complete.
func readManifest(f io.Reader) (Manifest, error) {
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%s is %w: %w", complete, ErrDamaged, err)
	}
	return m, nil
}

// size returns the sum of the sizes of the files.
func (m Manifest) size() (n int64) {
	for _, f := range m {
		n += f.Size
	}
	return n
}

// check compares the names and sizes of the files in dir with the manifest, and with deep also their contents.
func (m Manifest) check(dir string, deep bool) error {
	for _, f := range m {
		path := filepath.Join(dir, f.Name)
		info, err := os.Lstat(path)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if !info.Mode().IsRegular() || info.Size() != f.Size {
			return fmt.Errorf("%s is %w: it has %d bytes, want %d", path, ErrDamaged, info.Size(), f.Size)
		}
		if !deep {
			continue
		}
		got, err := hashFile(path)
		if err != nil {
			return err
		}
		if got != f.SHA256 {
			return fmt.Errorf("%s is %w: its SHA-256 is %s, want %s", path, ErrDamaged, got, f.SHA256)
		}
	}
	return nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
