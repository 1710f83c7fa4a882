package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Free space that runs and models need. A checkpoint of a model of 0.5 billion parameters has 6 GB with the optimiser.
const (
	leastDisk = 1 << 30
	usualDisk = 20 << 30
)

func disks(_ context.Context, m *Machine) []Finding {
	return []Finding{
		disk("disk of runs", m.Runs, "set trainer.output_dir to a folder on another disk"),
		disk("disk of models", m.Cache, "set HF_HOME to a folder on another disk"),
	}
}

// disk examines the folder at path, or its first parent that exists.
func disk(name, path, move string) Finding {
	dir := path
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Finding{name, Fail, path + ": " + err.Error(), move}
	}
	free := int64(st.Bavail) * st.Bsize
	f := ok(name, "%s: %s free", path, gigabytes(free))
	switch temp, err := os.CreateTemp(dir, ".openmanus-doctor-*"); {
	case err != nil:
		return Finding{name, Fail, err.Error(), "make the folder writable, or " + move}
	case errors.Join(temp.Close(), os.Remove(temp.Name())) != nil:
		f.Level, f.Advice = Warn, "the temporary file "+temp.Name()+" could not be removed"
	case free < leastDisk:
		f.Level, f.Advice = Fail, "make room, or "+move
	case free < usualDisk:
		f.Level, f.Advice = Warn, "a checkpoint of a model of 0.5 billion parameters takes 6 GB: make room, lower trainer.keep_checkpoints, or "+move
	}
	return f
}
