package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"github.com/openmanus/openmanus/internal/errext"
)

// partBytes is the size of a part of a file. A killed process loses the parts in flight.
const partBytes = 8 << 20

// parts is a file that is downloaded in parts of equal size. PATH.openmanus.incomplete holds the data and
// PATH.openmanus.parts lists the finished parts, from which another process continues. The name differs from
// huggingface_hub's, whose versions up to 1 take the size of an incomplete file for its finished part.
type parts struct {
	path string
	size int64
	part int64 // bytes of a part
	data *os.File

	mu   sync.Mutex
	done map[int64]bool // numbers of finished parts, guarded by mu
}

const (
	incompleteExt = ".openmanus.incomplete"
	partsExt      = ".openmanus.parts"
)

// finished is the content of the .parts file.
type finished struct {
	Size int64   `json:"size"`
	Part int64   `json:"part"`
	Done []int64 `json:"done"`
}

// openParts opens or creates the incomplete file of path.
func openParts(path string, size, part int64) (*parts, error) {
	p := &parts{path: path, size: size, part: part, done: map[int64]bool{}}
	data, err := os.OpenFile(path+incompleteExt, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	p.data = data
	st, err := data.Stat()
	if err == nil && st.Size() == size {
		err = p.load()
	}
	if err == nil {
		err = data.Truncate(size)
	}
	if err != nil {
		return nil, errors.Join(err, data.Close())
	}
	return p, nil
}

// load reads the list of finished parts. A list of other sizes is ignored.
func (p *parts) load() error {
	text, err := os.ReadFile(p.path + partsExt)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f finished
	if json.Unmarshal(text, &f) != nil || f.Size != p.size || f.Part != p.part { // another version wrote it: start over
		return nil
	}
	for _, n := range f.Done {
		p.done[n] = true
	}
	return nil
}

// span returns the first byte of part n and the first byte after it.
func (p *parts) span(n int64) (from, to int64) { return n * p.part, min((n+1)*p.part, p.size) }

// missing returns the numbers of unfinished parts, and the number of finished bytes.
func (p *parts) missing() (list []int64, have int64) {
	for n := int64(0); n*p.part < p.size; n++ {
		if from, to := p.span(n); p.done[n] {
			have += to - from
		} else {
			list = append(list, n)
		}
	}
	return list, have
}

// finish records part n as finished.
func (p *parts) finish(n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[n] = true
	f := finished{Size: p.size, Part: p.part}
	for i := int64(0); i*p.part < p.size; i++ {
		if p.done[i] {
			f.Done = append(f.Done, i)
		}
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return writeFile(p.path+partsExt, text)
}

// publish moves the verified file to its path.
func (p *parts) publish() error {
	err := errors.Join(p.data.Sync(), p.data.Close())
	if err == nil {
		err = os.Rename(p.path+incompleteExt, p.path)
	}
	if err == nil {
		err = removeIfExists(p.path + partsExt)
	}
	return err
}

// discard removes the incomplete file.
func (p *parts) discard() error {
	return errors.Join(p.data.Close(), removeIfExists(p.path+partsExt), removeIfExists(p.path+incompleteExt))
}

func removeIfExists(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeFile writes a small file atomically.
func writeFile(path string, text []byte) error {
	temp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	if err := os.WriteFile(temp, text, 0o666); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// onDisk adds the exit code and an action to an error of the operating system's files.
func onDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errext.With(errext.Disk, "make room, then run the same command again; finished parts are kept", err)
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return errext.WithDefault(errext.Disk, err)
	}
	if _, ok := errors.AsType[*os.LinkError](err); ok {
		return errext.WithDefault(errext.Disk, err)
	}
	return err
}
