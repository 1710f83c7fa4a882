package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Headers of the hub.
const (
	repoCommit = "X-Repo-Commit"
	linkedETag = "X-Linked-Etag" // hash of the file that a redirect leads to
	linkedSize = "X-Linked-Size"
)

// file is a file of a repository at a commit.
type file struct {
	name string // path in the repository
	size int64  // -1: not known yet
	hash string // SHA-256 of the content, or SHA-1 of the git blob; "": not known yet
}

// hashForm matches the name of a blob.
var hashForm = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// listing is a commit with its files.
type listing struct {
	commit string
	files  []file
}

var commitForm = regexp.MustCompile(`^[0-9a-f]{40}$`)

// list requests the files of a revision.
func (c *Client) list(ctx context.Context, n Name) (listing, error) {
	address := c.address("api/models", n.ID, "revision", url.PathEscape(n.Revision)) + "?blobs=true"
	body, err := c.getSmall(ctx, address)
	if err != nil {
		return listing{}, err
	}
	var doc struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name   string `json:"rfilename"`
			Size   *int64 `json:"size"`
			BlobID string `json:"blobId"`
			LFS    *struct {
				SHA256 string `json:"sha256"`
				Size   *int64 `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	if err := json.Unmarshal(body, &doc); err != nil || !commitForm.MatchString(doc.SHA) {
		return listing{}, fmt.Errorf("%s: the reply is not the description of a model (commit %.80q): is HF_ENDPOINT, now %s, the address of a hub?", address, doc.SHA, c.Endpoint)
	}
	l := listing{commit: doc.SHA}
	for _, s := range doc.Siblings {
		if !fs.ValidPath(s.Name) || strings.Contains(s.Name, `\`) {
			return listing{}, fmt.Errorf("%s lists the file %.80q, whose name is not a path below the repository", address, s.Name)
		}
		f := file{name: s.Name, size: -1, hash: s.BlobID}
		if s.Size != nil {
			f.size = *s.Size
		}
		if s.LFS != nil {
			f.hash = s.LFS.SHA256
			if s.LFS.Size != nil {
				f.size = *s.LFS.Size
			}
		}
		l.files = append(l.files, f)
	}
	return l, nil
}

// resolve returns the address of a file.
func (c *Client) resolve(n Name, commit, name string) string {
	return c.address(n.ID, "resolve", commit, escapePath(name))
}

// complete requests the size and the hash of a file if the listing lacks them, as on mirrors that ignore blobs=true.
func (c *Client) complete(ctx context.Context, n Name, commit string, f *file) error {
	if f.hash == "" || f.size < 0 {
		address := c.resolve(n, commit, f.name)
		err := c.retry(ctx, func() (bool, error) {
			resp, _, err := c.send(ctx, http.MethodHead, address, nil)
			if err != nil {
				return false, err
			}
			defer resp.Body.Close()
			if got := resp.Header.Get(repoCommit); got != "" && got != commit {
				return false, permanent{fmt.Errorf("%s: the reply is of commit %.80s", address, got)}
			}
			f.hash = strings.Trim(strings.TrimPrefix(cmp.Or(resp.Header.Get(linkedETag), resp.Header.Get("ETag")), "W/"), `"`)
			f.size, err = strconv.ParseInt(cmp.Or(resp.Header.Get(linkedSize), resp.Header.Get("Content-Length")), 10, 64)
			if err != nil {
				err = permanent{fmt.Errorf("%s: the reply has no size", address)}
			}
			return false, err
		})
		if err != nil {
			return err
		}
	}
	if !hashForm.MatchString(f.hash) || f.size < 0 {
		return fmt.Errorf("%s of %s has the hash %.80q and the size %d, want 40 or 64 hexadecimal digits", f.name, n, f.hash, f.size)
	}
	return nil
}
