// Package hubtest is a local server with the part of the Hugging Face hub's HTTP API that fetching models needs, for
// tests. Large files are on a second address, as on the hub, whose storage has another host.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a hub.
type Server struct {
	URL     string // HF_ENDPOINT
	Storage string // address of large files

	mu       sync.Mutex
	repos    map[string]*repo // guarded by mu
	requests []Request        // guarded by mu
	fault    Fault            // guarded by mu
}

// InvalidToken is a token that no account has.
const InvalidToken = "hf_invalid"

// Fault handles a request in place of the server, or returns false to leave it to the server.
type Fault func(w http.ResponseWriter, r *http.Request) bool

// Request is a request that the server received.
type Request struct {
	Storage       bool // sent to the address of large files
	Method, Path  string
	Range         string
	Authorization string
}

// repo is a repository with one commit.
type repo struct {
	Repo
	commit string
}

// Repo is a repository.
type Repo struct {
	Files     map[string][]byte
	Revisions []string // branches and tags; empty: main
	Token     string   // token that may read the repository; "": it is public
	Gated     bool     // the licence must be accepted; only the account of Token has done so
	Bare      bool     // the list of files has no sizes and hashes, as on some mirrors
}

// New starts a server without repositories.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{repos: map[string]*repo{}}
	hub := httptest.NewServer(http.HandlerFunc(s.hub))
	storage := httptest.NewServer(http.HandlerFunc(s.storage))
	t.Cleanup(hub.Close)
	t.Cleanup(storage.Close)
	s.URL, s.Storage = hub.URL, storage.URL
	return s
}

// Add adds or replaces a repository, and returns its commit.
func (s *Server) Add(id string, r Repo) string {
	h := sha1.New()
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		fmt.Fprintf(h, "%s %s\n", name, hashOf(name, r.Files[name]))
	}
	if len(r.Revisions) == 0 {
		r.Revisions = []string{"main"}
	}
	commit := hex.EncodeToString(h.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[id] = &repo{r, commit}
	return commit
}

// AddFolder adds a repository with the files of a folder, and returns its commit.
func (s *Server) AddFolder(t testing.TB, id, dir string) string {
	t.Helper()
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(os.DirFS(dir), name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.Add(id, Repo{Files: files})
}

// SetFault sets the handler that sees requests before the server; nil: none.
func (s *Server) SetFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Requests returns the received requests.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Environment returns the variables with which the server is the hub and the folder cache is the cache.
func (s *Server) Environment(cache string) map[string]string {
	return map[string]string{"HF_ENDPOINT": s.URL, "HF_HUB_CACHE": cache, "HF_TOKEN": "", "HF_HUB_OFFLINE": ""}
}

// large reports whether a file is stored outside git.
func large(name string) bool {
	return slices.Contains([]string{".safetensors", ".gguf", ".bin", ".pt"}, path.Ext(name))
}

// hashOf returns the ETag of a file: the SHA-256 of a large file, the SHA-1 of the git blob of another.
func hashOf(name string, content []byte) string {
	if large(name) {
		sum := sha256.Sum256(content)
		return hex.EncodeToString(sum[:])
	}
	return gitHash(content)
}

func gitHash(content []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// received records a request and reports whether a fault has handled it.
func (s *Server) received(w http.ResponseWriter, r *http.Request, storage bool) bool {
	s.mu.Lock()
	s.requests = append(s.requests, Request{storage, r.Method, r.URL.Path, r.Header.Get("Range"), r.Header.Get("Authorization")})
	fault := s.fault
	s.mu.Unlock()
	return fault != nil && fault(w, r)
}

// hub serves the API.
func (s *Server) hub(w http.ResponseWriter, r *http.Request) {
	if s.received(w, r, false) {
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			fail(w, http.StatusBadRequest, "", err.Error())
			return
		}
	}
	api := len(parts) > 3 && parts[0] == "api" && parts[1] == "models"
	if api {
		parts = parts[2:]
	}
	if len(parts) < 2 {
		fail(w, http.StatusNotFound, "", "no such page")
		return
	}
	id := parts[0] + "/" + parts[1]
	kind, revision, rest := "revision", "main", parts[2:]
	if len(rest) >= 2 {
		kind, revision, rest = rest[0], rest[1], rest[2:]
	}
	s.mu.Lock()
	repo := s.repos[id]
	s.mu.Unlock()
	switch token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); {
	case token == InvalidToken:
		fail(w, http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
	case repo == nil || repo.Token != "" && !repo.Gated && token != repo.Token: // the hub does not tell which private names exist
		status := http.StatusNotFound
		if token == "" {
			status = http.StatusUnauthorized
		}
		fail(w, status, "RepoNotFound", "Repository not found")
	case repo.Gated && token == "":
		fail(w, http.StatusUnauthorized, "GatedRepo", "Access to model "+id+" is restricted. You must have access to it and be authenticated to access it.")
	case repo.Gated && token != repo.Token:
		fail(w, http.StatusForbidden, "GatedRepo", "Access to model "+id+" is restricted and you are not in the authorized list.")
	case revision != repo.commit && !slices.Contains(repo.Revisions, revision):
		fail(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
	case api && kind == "revision":
		reply(w, repo.info(id, r.URL.Query().Get("blobs") == "true"))
	case api && kind == "tree":
		reply(w, repo.tree())
	case !api && kind == "resolve":
		s.resolve(w, r, repo, strings.Join(rest, "/"))
	default:
		fail(w, http.StatusNotFound, "", "no such page")
	}
}

// info is the reply about a revision.
func (r *repo) info(id string, blobs bool) any {
	type lfs struct {
		SHA256      string `json:"sha256"`
		Size        int    `json:"size"`
		PointerSize int    `json:"pointerSize"`
	}
	type sibling struct {
		Name   string `json:"rfilename"`
		Size   *int   `json:"size,omitempty"`
		BlobID string `json:"blobId,omitempty"`
		LFS    *lfs   `json:"lfs,omitempty"`
	}
	siblings := []sibling{}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		x := sibling{Name: name}
		if blobs && !r.Bare {
			size := len(r.Files[name])
			x.Size, x.BlobID = &size, gitHash(r.Files[name])
			if large(name) {
				x.LFS = &lfs{hashOf(name, r.Files[name]), size, 134}
			}
		}
		siblings = append(siblings, x)
	}
	return map[string]any{"_id": "1", "id": id, "modelId": id, "sha": r.commit, "private": r.Token != "" && !r.Gated, "gated": r.Gated, "disabled": false, "siblings": siblings, "tags": []string{}}
}

// tree is the list of files that huggingface_hub requests.
func (r *repo) tree() any {
	out := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		x := map[string]any{"type": "file", "oid": gitHash(r.Files[name]), "size": len(r.Files[name]), "path": name}
		if large(name) {
			x["lfs"] = map[string]any{"oid": hashOf(name, r.Files[name]), "size": len(r.Files[name]), "pointerSize": 134}
		}
		out = append(out, x)
	}
	return out
}

// resolve serves a small file, or redirects to the storage of a large one.
func (s *Server) resolve(w http.ResponseWriter, r *http.Request, repo *repo, name string) {
	w.Header().Set("X-Repo-Commit", repo.commit)
	content, ok := repo.Files[name]
	if !ok {
		fail(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	tag := `"` + hashOf(name, content) + `"`
	if large(name) {
		w.Header().Set("X-Linked-Etag", tag)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(content)))
		http.Redirect(w, r, s.Storage+"/"+hashOf(name, content)+"?signature=secret", http.StatusFound)
		return
	}
	w.Header().Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// storage serves large files by their hash.
func (s *Server) storage(w http.ResponseWriter, r *http.Request) {
	if s.received(w, r, true) {
		return
	}
	content := s.Content(strings.TrimPrefix(r.URL.Path, "/"))
	if content == nil || r.URL.Query().Get("signature") != "secret" {
		http.Error(w, "AccessDenied", http.StatusForbidden)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// Content returns the content of a large file by its hash, or nil.
func (s *Server) Content(hash string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.repos {
		for name, content := range r.Files {
			if large(name) && hashOf(name, content) == hash {
				return content
			}
		}
	}
	return nil
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

func fail(w http.ResponseWriter, status int, code, message string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	w.Header().Set("X-Error-Message", message)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message}) // the client may have gone
}
