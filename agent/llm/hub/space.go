package hub

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/openmanus/openmanus/internal/errext"
)

// spare is the number of bytes that a Fetch leaves free.
const spare = 64 << 20

// checkSpace returns an error if the file system of dir, or of its first parent that exists, has less than need bytes free.
func checkSpace(dir string, need int64) error {
	free, err := freeSpace(dir)
	if err != nil || need == 0 || free >= need+spare {
		return err
	}
	return errext.With(errext.Disk, "make room, or set HF_HOME (or --to) to a folder on another disk",
		fmt.Errorf("%s has %s free, the files need %s", dir, bytesText(free), bytesText(need+spare)))
}

// freeSpace returns the number of bytes that the user may write to the file system of dir.
func freeSpace(dir string) (int64, error) {
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(dir, &st)
		if err == nil {
			return int64(st.Bavail) * st.Bsize, nil
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, os.ErrNotExist) || parent == dir {
			return 0, fmt.Errorf("free space of %s: %w", dir, err)
		}
		dir = parent
	}
}

// bytesText returns a size for people.
func bytesText(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// allocated returns the number of bytes that a file, which may have holes, takes on the disk; 0 if it does not exist.
func allocated(path string) int64 {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		return 0
	}
	return st.Blocks * 512
}
