package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/openmanus/openmanus/internal/payload"
)

// level compresses 365 MB to 95 MB in 8 s. The next level saves 8 MB and takes a minute longer.
const level = zstd.SpeedBetterCompression

// dist writes the files of a release into dir and removes other files there.
func (in *inputs) dist(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	root, out := filepath.Join(tmp, "tree"), filepath.Join(tmp, "dist")
	if err := in.tree(root); err != nil {
		return err
	}
	if err := checkStatic(in.launcher); err != nil {
		return err
	}
	var archive bytes.Buffer
	unpacked, err := in.pack(&archive, root)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(out, in.name()+".tar.zst"), archive.Bytes()); err != nil {
		return err
	}
	if err := in.oneFile(filepath.Join(out, in.name()), archive.Bytes(), unpacked); err != nil {
		return err
	}
	for from, to := range map[string]string{
		"THIRD_PARTY_LICENSES": "THIRD_PARTY_LICENSES", "openmanus.spdx.json": in.name() + ".spdx.json",
	} {
		if err := copyFile(filepath.Join(out, to), filepath.Join(root, docDir, from), 0o644); err != nil {
			return err
		}
	}
	if err := sums(out); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(out, dir)
}

// oneFile writes the launcher with the archive.
func (in *inputs) oneFile(path string, archive []byte, unpacked int64) error {
	launcher, err := os.ReadFile(in.launcher)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if err := payload.Write(f, launcher, archive, unpacked); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}

// pack writes the tree as a compressed tar file with sorted names and fixed times and owners. It returns the sum of the sizes of
// the files.
func (in *inputs) pack(w io.Writer, root string) (size int64, err error) {
	// One goroutine, because the blocks of the output must not depend on the number of processors.
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(level), zstd.WithWindowSize(32<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	t := tar.NewWriter(z)
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error { // in lexical order
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: in.name() + "/" + name, ModTime: in.time, Format: tar.FormatPAX, Typeflag: tar.TypeDir, Mode: 0o755}
		if name == "." {
			h.Name = in.name()
		}
		if d.IsDir() {
			h.Name += "/"
			return t.WriteHeader(h)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
		if info.Mode()&0o100 == 0 {
			h.Mode = 0o644
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		size += h.Size
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(t, f)
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := t.Close(); err != nil {
		return 0, err
	}
	return size, z.Close()
}

// sums writes SHA256SUMS, in the form of sha256sum.
func sums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(b), e.Name()))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return writeFile(filepath.Join(dir, "SHA256SUMS"), []byte(strings.Join(lines, "")))
}
