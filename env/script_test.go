package env

import (
	"strings"
	"testing"
	"time"

	"github.com/openmanus/openmanus/env/envtest"
)

// script is a server that sends the replies that a test lists.
type script struct{ *envtest.Script }

type reply = envtest.Reply

func ok(body string) []reply { return envtest.OK(body) }

func newScript(t *testing.T, replies map[string][]reply) script {
	return script{envtest.New(t, replies)}
}

// count returns the number of requests that begin with prefix.
func (s script) count(prefix string) int {
	n := 0
	for _, r := range s.Requests() {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// quick returns options with short timeouts.
func quick(url string) Options {
	return Options{BaseURL: url, Backoff: time.Microsecond, Timeout: 20 * time.Second}
}
