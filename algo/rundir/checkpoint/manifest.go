package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ManifestFile is the file of a checkpoint that lists the digests of all others.
const ManifestFile = "manifest.json"

const (
	manifestFormat  = "openmanus-checkpoint"
	manifestVersion = 1
	maxManifest     = 16 << 20
)

// File is the entry of a file in the manifest of a checkpoint.
type File struct {
	Path   string `json:"path"` // path relative to the checkpoint, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

type manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Step    int    `json:"step"`
	Files   []File `json:"files"`
}

// scan lists and hashes the files under dir, in lexical order, and lists its folders,
// inner ones first. It returns an error for anything but files and folders, since the
// target of a link would not be part of the checkpoint.
func scan(ctx context.Context, dir string) (files []File, folders []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.IsDir() {
			folders = append([]string{path}, folders...)
			return nil
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder", path)
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		size, sum, err := hash(path)
		if err != nil {
			return err
		}
		files = append(files, File{Path: filepath.ToSlash(rel), Size: size, SHA256: sum})
		return nil
	})
	return files, folders, err
}

func hash(path string) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return 0, "", fmt.Errorf("hash %s: %w", path, err)
	}
	return n, hex.EncodeToString(h.Sum(nil)), nil
}

func readManifest(dir string) (manifest, error) {
	var m manifest
	f, err := os.Open(filepath.Join(dir, ManifestFile))
	if err != nil {
		return m, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	if m.Format != manifestFormat {
		return m, fmt.Errorf("%s does not describe a checkpoint", ManifestFile)
	}
	if m.Version != manifestVersion {
		return m, fmt.Errorf("%s has version %d, this program reads version %d", ManifestFile, m.Version, manifestVersion)
	}
	return m, nil
}

// verify compares every listed file with the folder.
func (m manifest) verify(ctx context.Context, dir string) error {
	if len(m.Files) == 0 {
		return errors.New("the manifest lists no files")
	}
	for _, want := range m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		local := filepath.FromSlash(want.Path)
		if !filepath.IsLocal(local) {
			return fmt.Errorf("the manifest lists %q, which is outside the checkpoint", want.Path)
		}
		st, err := os.Lstat(filepath.Join(dir, local))
		if err != nil {
			return err
		}
		if !st.Mode().IsRegular() || st.Size() != want.Size {
			return fmt.Errorf("%s is corrupt: %d bytes instead of %d", want.Path, st.Size(), want.Size)
		}
		_, sum, err := hash(filepath.Join(dir, local))
		if err != nil {
			return err
		}
		if sum != want.SHA256 {
			return fmt.Errorf("%s is corrupt: its SHA-256 is not the manifest's", want.Path)
		}
	}
	return nil
}
