package transport_test

import (
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data/transport"
)

func TestExcerpt(t *testing.T) {
	for reply, want := range map[string]string{
		" short\xff\n":                        "short\uFFFD",
		"a" + strings.Repeat("é", 300):        "a" + strings.Repeat("é", 199) + "…",
		strings.Repeat("b", 400):              strings.Repeat("b", 400),
		strings.Repeat("b", 399) + "\uFFFDcd": strings.Repeat("b", 399) + "…",
	} {
		if got := transport.Excerpt(reply); got != want {
			t.Errorf("%q: %q, want %q", reply, got, want)
		}
	}
}
