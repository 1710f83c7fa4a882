package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"
)

// download is a file that is being fetched to a path.
type download struct {
	c       *Client
	file    file
	address string // at Endpoint
	commit  string
	path    string
	moved   func(bytes int64, activity string) // reports progress; negative if finished bytes are discarded

	mu       sync.Mutex
	location string // where address redirects to, guarded by mu; "": not known
}

// run downloads the file to its path in parallel parts, continues an earlier download, and checks the hash.
func (d *download) run(ctx context.Context) error {
	for try := 1; ; try++ {
		p, err := openParts(d.path, d.file.size, partBytes)
		if err != nil {
			return onDisk(err)
		}
		todo, have := p.missing()
		d.moved(have, d.file.name)
		err = d.fill(ctx, p, todo)
		if err != nil {
			return errors.Join(onDisk(err), onDisk(p.data.Close()))
		}
		d.moved(0, "checking "+d.file.name)
		got, err := d.sum(ctx, p.data)
		if err != nil {
			return errors.Join(onDisk(err), onDisk(p.data.Close()))
		}
		if got == d.file.hash {
			return onDisk(p.publish())
		}
		if err := p.discard(); err != nil {
			return onDisk(err)
		}
		d.moved(-d.file.size, d.file.name)
		wrong := fmt.Errorf("%s: the downloaded file has the hash %s, the hub lists %s: a proxy or a mirror may change files", d.address, got, d.file.hash)
		if try == 2 {
			return wrong
		}
		d.c.Log.Warn("a downloaded file is damaged and is fetched again", "error", wrong)
	}
}

// fill downloads the parts in todo. If the server ignores ranges, it downloads the whole file in one piece.
func (d *download) fill(ctx context.Context, p *parts, todo []int64) error {
	g, ctx2 := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, n := range todo {
		g.Go(func() error {
			select {
			case d.c.slots <- struct{}{}:
			case <-ctx2.Done():
				return context.Cause(ctx2)
			}
			defer func() { <-d.c.slots }()
			return d.part(ctx2, p, n)
		})
	}
	err := g.Wait()
	if errors.Is(err, errNoRanges) {
		d.c.Log.Info("the server ignores ranges: fetching the file in one piece", "file", d.file.name)
		return d.whole(ctx, p)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// errNoRanges is the error of a server that answers a request for a range with the whole file.
var errNoRanges = permanent{errors.New("the server ignores ranges")}

// part downloads part n. After an error it continues behind the received bytes.
func (d *download) part(ctx context.Context, p *parts, n int64) error {
	first, to := p.span(n)
	from := first
	err := d.c.retry(ctx, func() (bool, error) {
		got, err := d.copy(ctx, p, from, to)
		from += got
		return got > 0, err
	})
	if err != nil {
		d.moved(first-from, d.file.name)
		return err
	}
	return p.finish(n)
}

// whole downloads the file in one piece, from the start after each error.
func (d *download) whole(ctx context.Context, p *parts) error {
	_, have := p.missing()
	d.moved(-have, d.file.name)
	p.done = map[int64]bool{}
	return d.c.retry(ctx, func() (bool, error) {
		got, err := d.copy(ctx, p, 0, p.size)
		if err != nil {
			d.moved(-got, d.file.name)
		}
		return false, err
	})
}

// copy requests the bytes from (inclusive) to (exclusive) and writes them to the file. It returns the number of written bytes.
func (d *download) copy(ctx context.Context, p *parts, from, to int64) (got int64, err error) {
	if from == to {
		return 0, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	defer func() { err = causeOf(ctx, err) }()
	header := http.Header{}
	ranged := from > 0 || to < p.size
	if ranged {
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to-1))
	}
	resp, err := d.open(ctx, header)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return 0, permanent{fmt.Errorf("%s: the reply has the encoding %.80q, which was not requested", d.address, e)}
	}
	switch {
	case resp.StatusCode == http.StatusPartialContent && ranged:
		var start, end, size int64
		value := resp.Header.Get("Content-Range")
		if _, err := fmt.Sscanf(value, "bytes %d-%d/%d", &start, &end, &size); err != nil || start != from || end >= to || size != p.size {
			return 0, fmt.Errorf("%s: the reply has the range %.80q, want bytes %d-%d/%d", d.address, value, from, to-1, p.size)
		}
	case resp.StatusCode == http.StatusOK && ranged:
		return 0, errNoRanges
	case resp.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("%s: unexpected status %s", d.address, resp.Status)
	case resp.ContentLength >= 0 && resp.ContentLength != p.size:
		return 0, fmt.Errorf("%s: the reply has %d bytes, the hub lists %d", d.address, resp.ContentLength, p.size)
	}
	body := d.c.watched(io.LimitReader(resp.Body, to-from), cancel)
	w := io.NewOffsetWriter(p.data, from)
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return got, permanent{err}
			}
			got += int64(n)
			d.moved(int64(n), d.file.name)
		}
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return got, &connectError{d.address, err}
		case got < to-from:
			return got, &connectError{d.address, io.ErrUnexpectedEOF}
		default:
			return got, nil
		}
	}
}

// open requests the file. The first request finds where the file is stored; later ones go there directly, until the
// storage rejects the address, whose signature ends after some time.
func (d *download) open(ctx context.Context, header http.Header) (*http.Response, error) {
	d.mu.Lock()
	location := d.location
	d.mu.Unlock()
	if location != "" {
		resp, _, err := d.c.send(ctx, http.MethodGet, location, header)
		if s, ok := errors.AsType[*statusError](err); !ok || s.status >= 500 || s.status == http.StatusTooManyRequests {
			return resp, err
		}
	}
	resp, from, err := d.c.send(ctx, http.MethodGet, d.address, header)
	if err != nil {
		return nil, err
	}
	if got := resp.Header.Get(repoCommit); got != "" && got != d.commit {
		_ = resp.Body.Close() // the body is of another commit
		return nil, permanent{fmt.Errorf("%s: the reply is of commit %.80s", d.address, got)}
	}
	d.mu.Lock()
	d.location = from
	d.mu.Unlock()
	return resp, nil
}

// sum returns the hash of a file: the SHA-256 of its content, or the SHA-1 of its git blob.
func (d *download) sum(ctx context.Context, f *os.File) (string, error) {
	return sumFile(ctx, f, d.file)
}

// sumFile returns the hash of r in the form of want.hash.
func sumFile(ctx context.Context, r io.ReaderAt, want file) (string, error) {
	var h hash.Hash = sha256.New()
	if len(want.hash) == 2*sha1.Size {
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", want.size) // writing to a hash does not fail
	}
	in := io.NewSectionReader(r, 0, want.size)
	buf := make([]byte, 1<<20)
	for {
		n, err := in.Read(buf)
		h.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return "", err
		}
	}
}
