package torch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LoadedFiles returns the paths of the shared libraries that the process has loaded, except those of the system's C library.
func LoadedFiles() ([]string, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	var files []string
	for line := range strings.Lines(string(maps)) {
		at := strings.IndexByte(line, '/')
		if at < 0 {
			continue
		}
		file := strings.TrimSuffix(line[at:], "\n")
		if base := filepath.Base(file); strings.Contains(base, ".so") && !systemLibrary(base) && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files, nil
}

// systemLibrary reports whether a file belongs to glibc.
func systemLibrary(base string) bool {
	for _, name := range []string{"libc", "libm", "libdl", "librt", "libpthread", "libutil", "libresolv", "ld-linux-x86-64"} {
		if strings.HasPrefix(base, name+".so.") || strings.HasPrefix(base, name+"-2.") {
			return true
		}
	}
	return false
}
