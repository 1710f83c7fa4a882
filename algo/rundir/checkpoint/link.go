package checkpoint

import (
	"os"
	"path/filepath"

	"github.com/openmanus/openmanus/data/crash"
)

var atLink = crash.New("checkpoint/link") // before a link to a checkpoint is replaced

// Link makes path a symbolic link to the checkpoint of a step under root, in place of an
// older link. The link is for people: the program reads nothing through it, so a stale
// link after a crash does no harm.
func Link(root string, step int, path string) error {
	target, err := filepath.Rel(filepath.Dir(path), filepath.Join(root, folderName(step)))
	if err != nil {
		return err
	}
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	temp := path + tempSuffix
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.Symlink(target, temp); err != nil {
		return err
	}
	atLink.Pass()
	return os.Rename(temp, path)
}
