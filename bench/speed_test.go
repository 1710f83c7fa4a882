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

// A pattern that matches no peer of the chosen rows is refused before anything is opened.
func TestPeersWithoutMatch(t *testing.T) {
	for _, o := range []options{
		{peers: regexp.MustCompile("lama-cpp")},
		{peers: regexp.MustCompile("llama"), rows: regexp.MustCompile("training")},
	} {
		var r report
		err := r.measureSpeed(t.Context(), o, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "matches no peer") {
			t.Errorf("--peers %s --rows %v: got %v", o.peers, o.rows, err)
		}
	}
}
