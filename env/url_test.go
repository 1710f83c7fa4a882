package env

import "testing"

func TestBaseURL(t *testing.T) {
	for _, tt := range []struct{ raw, suffix, want, root string }{
		{"http://h:1", "", "http://h:1", "http://h:1/"},
		{"http://h:1/", "", "http://h:1", "http://h:1/"},
		{"http://h:1", "/maze", "http://h:1/maze", "http://h:1/"},
		{"http://h:1//", "/maze", "http://h:1/maze", "http://h:1/"},
		{"http://h:1/maze", "/maze", "http://h:1/maze", "http://h:1/"},
		{"http://h:1/maze/", "/maze", "http://h:1/maze", "http://h:1/"},
		{"http://h:1/lmrl/maze/", "/maze", "http://h:1/lmrl/maze", "http://h:1/lmrl/"},
		{" https://h/a%20b/ ", "/wordle", "https://h/a%20b/wordle", "https://h/a%20b/"},
		{"http://u:p@h", "", "http://u:p@h", "http://u:p@h/"},
		{"http://[::1]:8/", "/maze", "http://[::1]:8/maze", "http://[::1]:8/"},
	} {
		got, err := BaseURL(tt.raw, tt.suffix)
		if err != nil || got != tt.want {
			t.Errorf("BaseURL(%q, %q) = %q, %v; want %q", tt.raw, tt.suffix, got, err, tt.want)
		}
		if root := RootURL(got, tt.suffix); root != tt.root {
			t.Errorf("RootURL(%q) = %q, want %q", got, root, tt.root)
		}
	}
	for in, want := range map[string]string{"http://u:p@h:1/maze": "http://h:1/maze", "http://h:1": "http://h:1", "https://u@[::1]:8/a@b": "https://[::1]:8/a@b"} {
		if got := WithoutUser(in); got != want {
			t.Errorf("WithoutUser(%q) = %q, want %q", in, got, want)
		}
	}
	for _, raw := range []string{"", " ", "h:1", "127.0.0.1:80", "ftp://h", "http://", "http://:80", "http://h?x=1", "http://h/#f", "http://h:x", "http://a b"} {
		if got, err := BaseURL(raw, ""); err == nil {
			t.Errorf("BaseURL(%q) = %q, want an error", raw, got)
		}
	}
}
