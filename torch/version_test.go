package torch

import (
	"strings"
	"testing"
)

func TestVersionCheck(t *testing.T) {
	v, err := Version()
	if err != nil {
		t.Fatal(err)
	}
	if v.Source == "" {
		t.Error("no source hash")
	}
	if err := v.check(v.ABI); err != nil {
		t.Errorf("the loaded libraries do not match: %v", err)
	}
	for _, test := range []struct {
		name string
		v    VersionInfo
		want string
	}{
		{"abi", VersionInfo{Libtorch: supportedLibtorch, Compiled: supportedLibtorch, ABI: 2}, "has ABI 2, this program needs 1"},
		{"headers", VersionInfo{Libtorch: "2.6.0", Compiled: "2.6.0", ABI: 1}, "compiled for libtorch 2.6.0, this program needs 2.11.0"},
		{"library", VersionInfo{Libtorch: "2.6.0", Compiled: supportedLibtorch, ABI: 1}, "libtorch 2.6.0 is loaded but libopenmanus_torch.so was compiled for 2.11.0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.v.check(1); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
