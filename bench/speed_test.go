package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
)

// Peers are opened if the pattern matches their name with the form, and only then.
func TestPeersAreChosen(t *testing.T) {
	row := Row{Peers: []Form{{Peer: "one"}, {Peer: "two", Form: "padded"}}}
	for pattern, want := range map[string]string{"one": "one:", "^two$": "", "two padded": "two:", "three": ""} {
		p := &peers{o: options{python: "/no/python", peers: regexp.MustCompile(pattern)}, dtype: torch.Float32, log: io.Discard, open: map[string]*Peer{}}
		rivals, err := p.of(t.Context(), row)
		if len(rivals) > 0 || (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v and the error %v, want an error of %q", pattern, rivals, err, want)
		}
	}
}
