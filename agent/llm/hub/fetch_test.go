package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/agent/llm/hub/hubtest"
	"github.com/openmanus/openmanus/internal/errext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bigBytes is the size of the test weights: three parts, the last one short.
const bigBytes = 2*partBytes + 12345

// tiny returns the files of a model.
func tiny() map[string][]byte {
	weights := make([]byte, bigBytes)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(weights) // never fails
	return map[string][]byte{
		"config.json":           []byte(`{"model_type": "llama"}`),
		"tokenizer.json":        []byte(`{}`),
		"tokenizer_config.json": []byte(`{"chat_template": ""}`),
		"README.md":             []byte("# tiny\n"),
		"LICENSE":               nil,
		"model.safetensors":     weights,
		"pytorch_model.bin":     []byte("pickle"),
		"onnx/model.onnx":       []byte("other"),
		".gitattributes":        []byte("*.safetensors filter=lfs\n"),
	}
}

// fetched are the files of tiny that a Fetch keeps.
var fetched = []string{"LICENSE", "README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}

// newClient returns a client of s that keeps its log and its pauses.
func newClient(t *testing.T, s Settings) (c *Client, log *bytes.Buffer, pauses *[]time.Duration) {
	t.Helper()
	log, pauses = &bytes.Buffer{}, &[]time.Duration{}
	c = New(s, slog.New(slog.NewTextHandler(log, nil)))
	var mu sync.Mutex
	c.sleep = func(ctx context.Context, d time.Duration) bool {
		mu.Lock()
		defer mu.Unlock()
		*pauses = append(*pauses, d)
		return ctx.Err() == nil
	}
	t.Cleanup(c.Close)
	return c, log, pauses
}

func settings(s *hubtest.Server, t *testing.T) Settings {
	return Settings{Endpoint: s.URL, Cache: t.TempDir()}
}

func name(t *testing.T, text string) Name {
	t.Helper()
	n, ok := ParseName(text)
	if !ok {
		t.Fatalf("%s is not a name", text)
	}
	return n
}

// checkFolder checks that a folder has exactly the named files with the wanted content.
func checkFolder(t *testing.T, dir string, names []string, want map[string][]byte) {
	t.Helper()
	var got []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			got = append(got, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, names) {
		t.Errorf("%s has %v, want %v", dir, got, names)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(text, want[name]) {
			t.Errorf("%s differs from the file of the hub (%v)", name, err)
		}
	}
}

// checkClean checks that the cache has no unfinished files.
func checkClean(t *testing.T, cache string) {
	t.Helper()
	err := filepath.WalkDir(cache, func(path string, e fs.DirEntry, err error) error {
		for _, ext := range []string{incompleteExt, partsExt, ".tmp"} {
			if strings.HasSuffix(path, ext) {
				t.Errorf("%s is left over", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFetch(t *testing.T) {
	files := tiny()
	for title, bare := range map[string]bool{"": false, "without sizes and hashes in the list": true} {
		t.Run(title, func(t *testing.T) {
			s := hubtest.New(t)
			commit := s.Add("acme/tiny", hubtest.Repo{Files: files, Revisions: []string{"main", "refs/pr/1"}, Token: "hf_secret", Bare: bare})
			set := settings(s, t)
			set.Token = "hf_secret"
			c, _, _ := newClient(t, set)
			var most, total atomic.Int64
			c.OnStart = total.Store
			c.OnProgress = func(done int64, _ string) { most.Store(max(most.Load(), done)) }
			got, err := c.Fetch(t.Context(), name(t, "acme/tiny@refs/pr/1"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(set.Cache, "models--acme--tiny", "snapshots", commit)
			if got.Path != dir || got.Commit != commit || got.Files != len(fetched) || got.Downloaded != got.Bytes || got.Bytes < bigBytes {
				t.Errorf("got %+v", got)
			}
			if most.Load() != got.Bytes || total.Load() != got.Bytes {
				t.Errorf("progress ended at %d of %d bytes, want %d", most.Load(), total.Load(), got.Bytes)
			}
			checkFolder(t, dir, fetched, files)
			checkClean(t, set.Cache)
			if link, err := os.Readlink(filepath.Join(dir, "model.safetensors")); err != nil || !strings.HasPrefix(link, "../../blobs/") || len(filepath.Base(link)) != 64 {
				t.Errorf("the snapshot links to %s (%v)", link, err)
			}
			if link, err := os.Readlink(filepath.Join(dir, "config.json")); err != nil || len(filepath.Base(link)) != 40 {
				t.Errorf("the snapshot links to %s (%v)", link, err)
			}
			for _, r := range s.Requests() {
				if want := map[bool]string{false: "Bearer hf_secret"}[r.Storage]; r.Authorization != want {
					t.Errorf("%+v: authorization %q, want %q", r, r.Authorization, want)
				}
			}
			for _, form := range []string{"acme/tiny@refs/pr/1", "acme/tiny@" + commit} {
				if path, err := set.Find(name(t, form)); err != nil || path != dir {
					t.Errorf("Find(%s) = %s, %v", form, path, err)
				}
			}
			if _, err := set.Find(name(t, "acme/tiny")); !errors.Is(err, ErrNotCached) {
				t.Errorf("the cache has main: %v", err)
			}
			before := len(s.Requests())
			if got, err = c.Fetch(t.Context(), name(t, "acme/tiny"), Options{}); err != nil || got.Downloaded != 0 {
				t.Errorf("another fetch: %+v, %v", got, err)
			}
			for _, r := range s.Requests()[before:] {
				if r.Storage {
					t.Errorf("another fetch downloads: %+v", r)
				}
			}
		})
	}
}

// TestFetchTo checks the copy into a folder, from the hub and from the cache.
func TestFetchTo(t *testing.T) {
	s, files := hubtest.New(t), tiny()
	s.Add("acme/tiny", hubtest.Repo{Files: files})
	set := settings(s, t)
	c, _, _ := newClient(t, set)
	for _, to := range []string{"a", "b"} { // between the two passes the model gets into the cache
		dir := filepath.Join(t.TempDir(), to)
		got, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{To: dir})
		if err != nil || got.Path != dir {
			t.Fatalf("%+v, %v", got, err)
		}
		checkFolder(t, dir, fetched, files)
		if st, err := os.Lstat(filepath.Join(dir, "model.safetensors")); err != nil || !st.Mode().IsRegular() {
			t.Errorf("the copy is a link: %v, %v", st, err)
		}
		if _, err := os.Stat(dir + ".incomplete"); err == nil {
			t.Error("the temporary folder is left over")
		}
		if _, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{To: dir}); codeOf(err) != errext.Usage {
			t.Errorf("a folder that exists: %v", err)
		}
		if _, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{}); err != nil {
			t.Fatal(err)
		}
	}
}

func codeOf(err error) errext.ExitCode {
	code, _ := errext.CodeOf(err)
	return code
}

// TestChoice checks the choice of files.
func TestChoice(t *testing.T) {
	index := `{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`
	data := []byte("weights")
	for title, c := range map[string]struct {
		name    string
		include []string
		files   map[string][]byte
		want    []string // files; nil: an error
		path    string   // of the model in the snapshot
		words   []string
	}{
		"shards": {files: map[string][]byte{
			"config.json": nil, "model.safetensors.index.json": []byte(index), "model-00001-of-00002.safetensors": data,
			"model-00002-of-00002.safetensors": data, "consolidated.safetensors": data, "model.fp16.safetensors": data,
		}, want: []string{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"}},
		"a shard is missing": {files: map[string][]byte{
			"config.json": nil, "model.safetensors.index.json": []byte(index), "model-00001-of-00002.safetensors": data,
		}, words: []string{"model-00002-of-00002.safetensors"}},
		"an index that leads elsewhere": {files: map[string][]byte{
			"config.json": nil, "model.safetensors.index.json": []byte(`{"weight_map": {"a": "../../x.safetensors"}}`),
		}, words: []string{"../../x.safetensors"}},
		"adapters": {
			files: map[string][]byte{"adapter_config.json": nil, "adapter_model.safetensors": data, "adapter_model.bin": data},
			want:  []string{"adapter_config.json", "adapter_model.safetensors"},
		},
		"only pickles": {
			files: map[string][]byte{"config.json": nil, "pytorch_model.bin": data},
			words: []string{"pytorch_model.bin", "safetensors"},
		},
		"only GGUF": {
			files: map[string][]byte{"README.md": nil, "a-q4_0.gguf": data, "a-q8_0.gguf": data},
			words: []string{"a-q4_0.gguf", "a-q8_0.gguf", "acme/tiny/a-q4_0.gguf"},
		},
		"a GGUF file by name": {
			name: "acme/tiny/a-q8_0.gguf", files: map[string][]byte{"README.md": nil, "a-q4_0.gguf": data, "a-q8_0.gguf": data},
			want: []string{"a-q8_0.gguf"}, path: "a-q8_0.gguf",
		},
		"a GGUF file by pattern": {
			include: []string{"*q8_0.gguf"}, files: map[string][]byte{"config.json": nil, "a-q4_0.gguf": data, "a-q8_0.gguf": data},
			want: []string{"a-q8_0.gguf"}, path: "a-q8_0.gguf",
		},
		"a pattern without a file": {
			include: []string{"*q2_k.gguf"}, files: map[string][]byte{"a-q4_0.gguf": data},
			words: []string{"*q2_k.gguf", "a-q4_0.gguf"},
		},
		"a pickle by pattern": {include: []string{"*.bin"}, files: map[string][]byte{"pytorch_model.bin": data}, words: []string{"pytorch_model.bin"}},
		"no weights":          {files: map[string][]byte{"config.json": nil}, words: []string{"model.safetensors"}},
		"an empty repository": {files: map[string][]byte{}, words: []string{"model.safetensors"}},
		"a path out of the repository": {
			files: map[string][]byte{"config.json": nil, "../LICENSE": nil, "model.safetensors": data}, words: []string{"../LICENSE"},
		},
	} {
		t.Run(title, func(t *testing.T) {
			s := hubtest.New(t)
			s.Add("acme/tiny", hubtest.Repo{Files: c.files})
			set := settings(s, t)
			client, _, _ := newClient(t, set)
			n := name(t, "acme/tiny")
			if c.name != "" {
				n = name(t, c.name)
			}
			got, err := client.Fetch(t.Context(), n, Options{Include: c.include})
			if c.want == nil {
				if err == nil || codeOf(err) != errext.Model {
					t.Fatalf("got %+v, %v, want an error", got, err)
				}
				for _, w := range c.words {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%v lacks %q", err, w)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(set.Cache, "models--acme--tiny", "snapshots", got.Commit)
			if got.Path != filepath.Join(dir, c.path) {
				t.Errorf("the model is at %s, want %s", got.Path, c.path)
			}
			checkFolder(t, dir, c.want, c.files)
			if path, err := set.Find(n); err != nil || path != got.Path {
				t.Errorf("Find returns %s, %v", path, err)
			}
		})
	}
}

// TestEndpoint checks that the error of an address that is no URL names the variable.
func TestEndpoint(t *testing.T) {
	for _, endpoint := range []string{"nonsense", "mirror:80/x", "ftp://mirror", "https:///x", "http://a b"} {
		c, _, _ := newClient(t, Settings{Endpoint: endpoint, Cache: t.TempDir()})
		if _, err := c.Fetch(t.Context(), name(t, "acme/tiny"), Options{}); err == nil || codeOf(err) != errext.Model || !strings.Contains(err.Error(), "HF_ENDPOINT is "+strconv.Quote(endpoint)) {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// TestFaults fetches through servers with faults. The fetch succeeds, or fails with words that help.
func TestFaults(t *testing.T) {
	files := tiny()
	var count atomic.Int64
	storage := func(r *http.Request) bool { return r.URL.Query().Has("signature") }
	first := func(n int64) bool { return count.Add(1) <= n }
	status := func(code int, header ...string) hubtest.Fault {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			http.Error(w, "no", code)
			return true
		}
	}
	when := func(cond func(*http.Request) bool, f hubtest.Fault) hubtest.Fault {
		return func(w http.ResponseWriter, r *http.Request) bool { return cond(r) && f(w, r) }
	}
	some := func(cond func(*http.Request) bool, n int64, f hubtest.Fault) hubtest.Fault {
		return when(func(r *http.Request) bool { return cond(r) && first(n) }, f)
	}
	always := func(*http.Request) bool { return true }
	isAPI := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }
	weights := files["model.safetensors"]
	// ranged answers a range with the wanted bytes of the weights under another Content-Range.
	span := func(r *http.Request) (from, to int) {
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
			return 0, len(weights)
		}
		return from, to + 1
	}
	partial := func(content string, cut int, change func(from int) int) hubtest.Fault {
		return func(w http.ResponseWriter, r *http.Request) bool {
			from, to := span(r)
			w.Header().Set("Content-Range", fmt.Sprintf(content, change(from), to-1, len(weights)))
			w.Header().Set("Content-Length", strconv.Itoa(to-from))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(weights[from : to-cut]) // the connection may be closed
			return true
		}
	}
	same := func(n int) int { return n }
	damaged := bytes.Clone(weights)
	damaged[partBytes] ^= 1

	for title, c := range map[string]struct {
		name  string
		repo  hubtest.Repo
		token string
		fault hubtest.Fault
		words []string // of the error; nil: success
		code  errext.ExitCode
		pause time.Duration // at least one pause is as long
	}{
		"ranges ignored": {fault: when(storage, func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write(weights) // the connection may be closed
			return true
		})},
		"ranges ignored, then the connection ends": {fault: when(storage, func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Length", strconv.Itoa(len(weights)))
			if r.Header.Get("Range") == "" && first(2) {
				_, _ = w.Write(weights[:partBytes/2])
				return true
			}
			_, _ = w.Write(weights)
			return true
		})},
		"the connection ends in a part":     {fault: some(storage, 4, partial("bytes %d-%d/%d", 4321, same))},
		"the connection always ends early":  {fault: when(storage, partial("bytes %d-%d/%d", 1, same)), words: []string{"EOF", "again"}, code: errext.Model},
		"a range of other bytes":            {fault: some(storage, 2, partial("bytes %d-%d/%d", 0, func(n int) int { return n + 1 }))},
		"a range of other bytes, always":    {fault: when(storage, partial("bytes %d-%d/%d", 0, func(n int) int { return n + 1 })), words: []string{"range"}, code: errext.Model},
		"a range of a file of another size": {fault: when(storage, partial("bytes %d-%d/%d0", 0, same)), words: []string{"range", strconv.Itoa(len(weights))}, code: errext.Model},
		"a damaged part": {fault: some(storage, 3, func(w http.ResponseWriter, r *http.Request) bool {
			from, to := span(r)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(weights)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(damaged[from:to])
			return true
		})},
		"always damaged": {fault: when(storage, func(w http.ResponseWriter, r *http.Request) bool {
			from, to := span(r)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(weights)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(damaged[from:to])
			return true
		}), words: []string{"hash", "proxy"}, code: errext.Model},
		"a damaged small file": {fault: when(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/config.json") }, func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`{"model_type": "other"}`)) // as long as the right one
			return true
		}), words: []string{"config.json", "hash"}, code: errext.Model},
		"a small file of another size": {fault: when(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/config.json") }, func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`<html>log in to the network</html>`))
			return true
		}), words: []string{"config.json", "bytes"}, code: errext.Model},
		"a page in place of the API": {fault: when(isAPI, func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`<html>log in to the network</html>`))
			return true
		}), words: []string{"HF_ENDPOINT"}, code: errext.Model},
		"a compressed reply": {fault: when(storage, func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Encoding", "gzip")
			return partial("bytes %d-%d/%d", 0, same)(w, r)
		}), words: []string{"gzip"}, code: errext.Model},
		"a compressed small file": {fault: when(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/config.json") }, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("shorter"))
			return true
		}), words: []string{"gzip"}, code: errext.Model},
		"a list that ends early": {fault: when(isAPI, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
			return true
		}), words: []string{"/api/models/", "EOF"}, code: errext.Model},
		"a redirect to a file": {fault: status(http.StatusFound, "Location", "file:///etc/passwd"), words: []string{`to "file"`, "not allowed"}, code: errext.Model},
		"another commit": {fault: when(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/resolve/") }, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Repo-Commit", "other")
			_, _ = w.Write([]byte(`{}`))
			return true
		}), words: []string{"commit other"}, code: errext.Model},
		"an expired address": {fault: some(storage, 2, status(http.StatusForbidden))},
		"storage rejects":    {fault: when(storage, status(http.StatusForbidden)), words: []string{"403", "proxy"}, code: errext.Model},
		"500, then well":     {fault: some(always, 4, status(http.StatusInternalServerError))},
		"500":                {fault: status(http.StatusInternalServerError), words: []string{"500", "later"}, code: errext.Model},
		"429 with seconds":   {fault: some(always, 2, status(http.StatusTooManyRequests, "Retry-After", "7")), pause: 7 * time.Second},
		"429 with a date": {fault: some(always, 1, func(w http.ResponseWriter, r *http.Request) bool {
			return status(http.StatusTooManyRequests, "Retry-After", time.Now().Add(100*time.Second).UTC().Format(http.TimeFormat))(w, r)
		}), pause: 90 * time.Second},
		"429 with the window of the limit": {fault: some(always, 1, status(http.StatusTooManyRequests, "RateLimit", `"api";r=0;t=55`)), pause: 55 * time.Second},
		"429 for hours":                    {fault: status(http.StatusTooManyRequests, "Retry-After", "7200"), words: []string{"2h0m0s", "HF_TOKEN"}, code: errext.Model},
		"429":                              {fault: status(http.StatusTooManyRequests), words: []string{"429", "later"}, code: errext.Model},
		"endless redirects": {fault: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return true
		}, words: []string{"redirects"}, code: errext.Model},
		"gated without a token":       {repo: hubtest.Repo{Token: "hf_secret", Gated: true}, words: []string{"401", "HF_TOKEN", "licence", "/acme/tiny"}, code: errext.Model},
		"gated, licence not accepted": {repo: hubtest.Repo{Token: "hf_secret", Gated: true}, token: "hf_mine", words: []string{"403", "licence", "the test"}, code: errext.Model},
		"gated, licence accepted":     {repo: hubtest.Repo{Token: "hf_secret", Gated: true}, token: "hf_secret"},
		"a wrong token":               {token: hubtest.InvalidToken, words: []string{"401", "the test", "not accepted"}, code: errext.Model},
		"no such model":               {name: "acme/gone", words: []string{"401", "check the name"}, code: errext.Model},
		"no such model, with a token": {name: "acme/gone", token: "hf_mine", words: []string{"404", "check the name"}, code: errext.Model},
		"no such revision":            {name: "acme/tiny@v9", words: []string{"404", "v9", "/acme/tiny"}, code: errext.Model},
		"a private model":             {repo: hubtest.Repo{Token: "hf_secret"}, words: []string{"HF_TOKEN"}, code: errext.Model},
		"a file disappears meanwhile": {fault: when(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/README.md") }, status(http.StatusNotFound, "X-Error-Code", "EntryNotFound")), words: []string{"404", "README.md"}, code: errext.Model},
	} {
		t.Run(title, func(t *testing.T) {
			count.Store(0)
			s := hubtest.New(t)
			c.repo.Files = files
			s.Add("acme/tiny", c.repo)
			s.SetFault(c.fault)
			set := settings(s, t)
			set.Token, set.TokenFrom = c.token, "the test"
			client, _, pauses := newClient(t, set)
			n := name(t, "acme/tiny")
			if c.name != "" {
				n = name(t, c.name)
			}
			got, err := client.Fetch(t.Context(), n, Options{})
			if c.pause > 0 && !slices.ContainsFunc(*pauses, func(d time.Duration) bool { return d >= c.pause }) {
				t.Errorf("pauses %v, want one of %v", *pauses, c.pause)
			}
			if c.words == nil {
				if err != nil {
					t.Fatal(err)
				}
				checkFolder(t, got.Path, fetched, files)
				checkClean(t, set.Cache)
				return
			}
			if err == nil || codeOf(err) != c.code {
				t.Fatalf("got %+v, %v, want an error of code %d", got, err, c.code)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v lacks %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "signature") {
				t.Errorf("%v has a signature", err)
			}
			if _, err := set.Find(n); err == nil {
				t.Error("the cache has the model")
			}
		})
	}
}
