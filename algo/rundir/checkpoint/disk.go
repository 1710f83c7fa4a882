package checkpoint

import "os"

// exists reports whether there is a file, a folder or a link at path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// disk does the file operations of a save, one method for each operation that changes
// files. Tests set the field before to a function. It is called before each operation, and
// an error that it returns prevents the operation.
type disk struct {
	before func(op, path string) error
}

func (d disk) do(op, path string, f func() error) error {
	if d.before != nil {
		if err := d.before(op, path); err != nil {
			return &os.PathError{Op: op, Path: path, Err: err}
		}
	}
	return f()
}

func (d disk) mkdir(path string) error {
	return d.do("mkdir", path, func() error { return os.Mkdir(path, 0o755) })
}

// makeAll makes a folder and its parents.
func (d disk) makeAll(path string) error {
	return d.do("makeall", path, func() error { return os.MkdirAll(path, 0o755) })
}

func (d disk) rename(from, to string) error {
	return d.do("rename", to, func() error { return os.Rename(from, to) })
}

func (d disk) removeAll(path string) error {
	return d.do("remove", path, func() error { return os.RemoveAll(path) })
}

func (d disk) write(path string, text []byte) error {
	return d.do("write", path, func() error { return os.WriteFile(path, text, 0o644) })
}

// fill calls f to write the caller's files.
func (d disk) fill(dir string, f func(string) error) error {
	return d.do("fill", dir, func() error { return f(dir) })
}

// sync makes the content of a file or the entries of a folder durable.
func (d disk) sync(path string) error {
	return d.do("sync", path, func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}
