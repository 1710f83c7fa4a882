package hub

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFromEnvironment(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{".cache/huggingface", "hf"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	token := filepath.Join(home, "hf", "token")
	if err := os.WriteFile(token, []byte("hf_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for title, c := range map[string]struct {
		env  map[string]string
		want Settings
	}{
		"nothing":     {want: Settings{Endpoint: DefaultEndpoint, Cache: filepath.Join(home, ".cache/huggingface/hub")}},
		"XDG":         {map[string]string{"XDG_CACHE_HOME": "/x"}, Settings{Endpoint: DefaultEndpoint, Cache: "/x/huggingface/hub"}},
		"HF_HOME":     {map[string]string{"HF_HOME": "~/hf", "HF_ENDPOINT": "http://mirror/"}, Settings{Endpoint: "http://mirror", Cache: filepath.Join(home, "hf/hub"), Token: "hf_file", TokenFrom: token}},
		"cache":       {map[string]string{"HF_HOME": "/x", "HF_HUB_CACHE": "$HOME/c"}, Settings{Endpoint: DefaultEndpoint, Cache: filepath.Join(home, "c")}},
		"older cache": {map[string]string{"HUGGINGFACE_HUB_CACHE": "/c"}, Settings{Endpoint: DefaultEndpoint, Cache: "/c"}},
		"token": {
			map[string]string{"HF_HOME": filepath.Join(home, "hf"), "HF_TOKEN": " hf_env\n"},
			Settings{Endpoint: DefaultEndpoint, Cache: filepath.Join(home, "hf/hub"), Token: "hf_env", TokenFrom: "HF_TOKEN"},
		},
		"token file": {map[string]string{"HF_HOME": "/x", "HF_TOKEN_PATH": token}, Settings{Endpoint: DefaultEndpoint, Cache: "/x/hub", Token: "hf_file", TokenFrom: token}},
		"offline":    {map[string]string{"HF_HOME": "/x", "HF_HUB_OFFLINE": "1"}, Settings{Endpoint: DefaultEndpoint, Cache: "/x/hub", Offline: true}},
		"not offline": {
			map[string]string{"HF_HOME": "/x", "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "yes"},
			Settings{Endpoint: DefaultEndpoint, Cache: "/x/hub"},
		},
	} {
		t.Run(title, func(t *testing.T) {
			got := FromEnvironment(func(key string) string {
				if key == "HOME" {
					return home
				}
				return c.env[key]
			})
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestParseName(t *testing.T) {
	for text, want := range map[string]Name{
		"Qwen/Qwen2.5-0.5B-Instruct":    {ID: "Qwen/Qwen2.5-0.5B-Instruct", Revision: "main"},
		"a/b@v1.0":                      {ID: "a/b", Revision: "v1.0"},
		"a/b@refs/pr/1":                 {ID: "a/b", Revision: "refs/pr/1"},
		"a/b/c-q8_0.gguf":               {ID: "a/b", File: "c-q8_0.gguf", Revision: "main"},
		"a/b/dir/c.gguf@v1":             {ID: "a/b", File: "dir/c.gguf", Revision: "v1"},
		"a":                             {},
		"a/b/c":                         {},
		"/a/b":                          {},
		"./a":                           {},
		"a/..":                          {},
		"a/b@":                          {},
		"a/b@../x":                      {},
		"a/b/../c.gguf":                 {},
		"a--b/c":                        {},
		"a/b c":                         {},
		"a/b@v1?x":                      {},
		"https://huggingface.co/Qwen/x": {},
	} {
		got, ok := ParseName(text)
		if want == (Name{}) {
			if ok {
				t.Errorf("ParseName(%q) = %+v, want no name", text, got)
			}
			continue
		}
		if !ok || got != want || got.String() != text {
			t.Errorf("ParseName(%q) = %+v, %v, want %+v", text, got, ok, want)
		}
	}
}
