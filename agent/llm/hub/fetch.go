package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/openmanus/openmanus/internal/errext"
)

// Options of Fetch.
type Options struct {
	// Include are patterns (path.Match) of the files of weights, such as "*Q8_0.gguf". Empty: the safetensors.
	Include []string
	// To is a new folder for the files. "": the cache.
	To string
}

// Fetched describes a fetched model.
type Fetched struct {
	Path       string // the model's folder, or its only .gguf file
	Commit     string
	Files      int
	Bytes      int64 // size of all files
	Downloaded int64 // bytes of the files that the cache lacked
}

// concurrentFiles is the number of files that are fetched at once.
const concurrentFiles = 4

// Fetch fetches a model into the cache, or into the folder o.To. Files in the cache are not
// fetched again. If the hub cannot be reached, it returns the cache's copy of the revision. An interrupted Fetch
// leaves the finished parts, from which the next one continues.
func (c *Client) Fetch(ctx context.Context, n Name, o Options) (Fetched, error) {
	if c.Offline {
		return c.offline(n, o, errors.New("HF_HUB_OFFLINE is set"))
	}
	if u, err := url.Parse(c.Endpoint); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return Fetched{}, errext.With(errext.Model, "set it to a URL such as "+DefaultEndpoint+", or remove it", fmt.Errorf("HF_ENDPOINT is %q, which is no URL of a hub", c.Endpoint))
	}
	l, err := c.list(ctx, n)
	if _, ok := errors.AsType[*connectError](err); ok && ctx.Err() == nil {
		if found, fault := c.offline(n, o, err); fault == nil {
			c.Log.Warn("the hub cannot be reached: using the copy in the cache", "model", n.String(), "error", err)
			return found, nil
		}
	}
	if err != nil {
		return Fetched{}, c.explain(n, err)
	}
	f := fetch{Client: c, name: n, commit: l.commit, to: o.To}
	if err := f.run(ctx, l.files, o.Include); err != nil {
		return Fetched{}, c.explain(n, onDisk(err))
	}
	return f.result, nil
}

// offline returns the copy of a model in the cache, or an error with the given reason.
func (c *Client) offline(n Name, o Options, why error) (Fetched, error) {
	path, err := c.Find(n)
	if err == nil && o.To != "" {
		err = errors.New("copying a model to a folder needs the list of its files from the hub")
	}
	if err != nil {
		return Fetched{}, errext.With(errext.Model, OfflineHint(n), fmt.Errorf("%s cannot be fetched: %w: %w", n, why, err))
	}
	return Fetched{Path: path}, nil
}

// OfflineHint returns the advice for a machine without access to the hub.
func OfflineHint(n Name) string {
	return "on a machine that reaches the hub, run `openmanus model fetch " + n.String() + " --to DIR`, copy DIR here and give its path; " +
		"or set HF_HOME to a cache that holds the model, HF_ENDPOINT to a mirror, or HTTPS_PROXY to a proxy"
}

// fetch is one call of Fetch.
type fetch struct {
	*Client
	name   Name
	commit string
	to     string
	temp   string // folder that becomes the folder to
	result Fetched

	mu      sync.Mutex
	done    int64 // guarded by mu
	started bool  // OnStart was called, guarded by mu
}

// moved adds to the finished bytes.
func (f *fetch) moved(bytes int64, activity string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done += bytes
	if f.OnProgress != nil && f.started {
		f.OnProgress(f.done, activity)
	}
}

func (f *fetch) run(ctx context.Context, files []file, include []string) error {
	if f.to != "" {
		f.temp = filepath.Clean(f.to) + ".incomplete"
		if _, err := os.Stat(f.to); !errors.Is(err, fs.ErrNotExist) {
			return errext.With(errext.Usage, "choose a folder that does not exist", errors.Join(fmt.Errorf("%s exists", f.to), err))
		}
	}
	var index []byte
	if at := slices.IndexFunc(files, func(x file) bool { return x.name == indexFile }); at >= 0 && len(include) == 0 && f.name.File == "" {
		path, err := f.place(ctx, files[at])
		if err != nil {
			return err
		}
		if index, err = os.ReadFile(path); err != nil {
			return err
		}
	}
	chosen, err := choose(f.name, files, include, index)
	if err != nil {
		return err
	}
	if err := f.prepare(ctx, chosen); err != nil {
		return err
	}
	paths := make([]string, len(chosen))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrentFiles)
	for i, file := range chosen {
		g.Go(func() (err error) {
			paths[i], err = f.place(ctx, file)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return f.publish(chosen, paths)
}

// prepare requests missing sizes, sums up the bytes to download, and checks that they fit on the disk.
func (f *fetch) prepare(ctx context.Context, chosen []file) error {
	var need int64
	for i := range chosen {
		if err := f.complete(ctx, f.name, f.commit, &chosen[i]); err != nil {
			return err
		}
		size := chosen[i].size
		f.result.Files++
		f.result.Bytes += size
		if f.inCache(chosen[i]) {
			if f.temp != "" {
				need += size
			}
			continue
		}
		f.result.Downloaded += size
		need += size - allocated(f.target(chosen[i])+incompleteExt)
	}
	dir := f.Cache
	if f.temp != "" {
		dir = filepath.Dir(f.temp)
	}
	if err := checkSpace(dir, max(need, 0)); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done, f.started = 0, true // the index is in the cache by now
	if f.OnStart != nil && f.result.Downloaded > 0 {
		f.OnStart(f.result.Downloaded)
	}
	return nil
}

// blob returns the path of a file's content in the cache.
func (f *fetch) blob(x file) string { return filepath.Join(f.repo(f.name.ID), "blobs", x.hash) }

func (f *fetch) inCache(x file) bool {
	st, err := os.Stat(f.blob(x))
	return err == nil && st.Size() == x.size
}

// target returns the path to which a file is downloaded.
func (f *fetch) target(x file) string {
	if f.temp != "" {
		return filepath.Join(f.temp, filepath.FromSlash(x.name))
	}
	return f.blob(x)
}

// place downloads a file unless it is there, and returns its path.
func (f *fetch) place(ctx context.Context, x file) (path string, err error) {
	if err := f.complete(ctx, f.name, f.commit, &x); err != nil {
		return "", err
	}
	path = f.target(x)
	if f.temp == "" && f.inCache(x) { // the cache may be read-only
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", err
	}
	if f.temp == "" {
		unlock, err := f.lock(ctx, f.name.ID, x)
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, unlock()) }()
	} else if f.inCache(x) {
		return path, f.copyVerified(ctx, x, path)
	}
	if st, err := os.Stat(path); err == nil && st.Size() == x.size { // another process, or an earlier Fetch into the same folder
		f.moved(0, x.name)
		return path, nil
	}
	d := download{c: f.Client, file: x, address: f.resolve(f.name, f.commit, x.name), commit: f.commit, path: path, moved: f.moved}
	return path, d.run(ctx)
}

// copyVerified copies a file of the cache and checks its hash.
func (f *fetch) copyVerified(ctx context.Context, x file, to string) error {
	in, err := os.Open(f.blob(x))
	if err != nil {
		return err
	}
	defer in.Close()
	got, err := sumFile(ctx, in, x)
	if err != nil {
		return err
	}
	if got != x.hash {
		return errext.With(errext.Disk, "remove this file and run the same command again", fmt.Errorf("%s is damaged: its hash is %s", in.Name(), got))
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// publish makes the files visible: as links of a snapshot, of which config.json is the last, or as the folder to.
func (f *fetch) publish(files []file, paths []string) error {
	f.result.Commit = f.commit
	dir := filepath.Join(f.repo(f.name.ID), "snapshots", f.commit)
	if f.temp != "" {
		if err := os.Rename(f.temp, f.to); err != nil {
			return err
		}
		dir = f.to
	} else {
		for _, last := range []bool{false, true} {
			for i, x := range files {
				if (x.name == configFile) != last {
					continue
				}
				if err := link(paths[i], filepath.Join(dir, filepath.FromSlash(x.name))); err != nil {
					return err
				}
			}
		}
		if err := f.writeRef(); err != nil {
			return err
		}
		f.tag()
	}
	path, err := modelIn(dir, f.name.File)
	if err != nil { // --include chose a part of a model
		path = dir
	}
	f.result.Path = path
	return nil
}

// link makes path a relative link to a blob.
func link(blob, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(path), blob)
	if err != nil {
		return err
	}
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	temp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	if err := os.Symlink(target, temp); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(temp, path)
}

// writeRef records the commit of a branch or tag.
func (f *fetch) writeRef() error {
	if f.name.Revision == f.commit {
		return nil
	}
	path := filepath.Join(f.repo(f.name.ID), "refs", filepath.FromSlash(f.name.Revision))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if old, err := os.ReadFile(path); err == nil && string(old) == f.commit {
		return nil
	}
	return writeFile(path, []byte(f.commit))
}

// tag marks the cache for backup programs (https://bford.info/cachedir/), as huggingface_hub does.
func (f *fetch) tag() {
	if f.result.Downloaded == 0 {
		return
	}
	path := filepath.Join(f.Cache, "CACHEDIR.TAG")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := writeFile(path, []byte("Signature: 8a477f597d28d172789f06886806bc55\n# Models of the Hugging Face hub.\n")); err != nil {
			f.Log.Warn("the cache could not be marked for backup programs", "error", err)
		}
	}
}
