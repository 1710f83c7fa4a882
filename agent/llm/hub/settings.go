package hub

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultEndpoint is the address of the Hugging Face hub.
const DefaultEndpoint = "https://huggingface.co"

// Settings are the settings that huggingface_hub reads from the environment.
type Settings struct {
	Endpoint  string // address of the hub or of a mirror, without a slash at the end
	Token     string // access token; "": none
	TokenFrom string // the variable or the file that holds Token
	Cache     string // folder of the cache
	Offline   bool   // no request is sent
}

// FromEnvironment reads the settings: HF_ENDPOINT; HF_TOKEN or the file token in HF_HOME; HF_HUB_CACHE
// or the folder hub in HF_HOME; HF_HUB_OFFLINE. The default of HF_HOME is ~/.cache/huggingface.
func FromEnvironment(getenv func(string) string) Settings {
	path := func(p string) string {
		p = os.Expand(p, getenv)
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			p = filepath.Join(getenv("HOME"), rest)
		}
		return p
	}
	cache := cmp.Or(getenv("XDG_CACHE_HOME"), filepath.Join(getenv("HOME"), ".cache"))
	home := path(cmp.Or(getenv("HF_HOME"), filepath.Join(cache, "huggingface")))
	s := Settings{
		Endpoint: strings.TrimRight(cmp.Or(getenv("HF_ENDPOINT"), DefaultEndpoint), "/"),
		Cache:    path(cmp.Or(getenv("HF_HUB_CACHE"), getenv("HUGGINGFACE_HUB_CACHE"), filepath.Join(home, "hub"))),
		Offline:  isTrue(cmp.Or(getenv("HF_HUB_OFFLINE"), getenv("TRANSFORMERS_OFFLINE"))),
	}
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token := clean(getenv(name)); token != "" {
			s.Token, s.TokenFrom = token, name
			return s
		}
	}
	file := path(cmp.Or(getenv("HF_TOKEN_PATH"), filepath.Join(home, "token")))
	if text, err := os.ReadFile(file); err == nil { // without the file there is no token
		if token := clean(string(text)); token != "" {
			s.Token, s.TokenFrom = token, file
		}
	}
	return s
}

func isTrue(s string) bool {
	return slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(s))
}

// clean removes line ends, which a header must not contain.
func clean(token string) string {
	return strings.TrimSpace(strings.NewReplacer("\r", "", "\n", "").Replace(token))
}
