// Package listentest finds free ports for tests that start servers as other
// processes, which need a port number before they listen.
package listentest

import (
	"testing"

	"github.com/openmanus/openmanus/internal/freeport"
)

// Ports returns the first of n consecutive free ports (freeport.Find).
func Ports(t testing.TB, n int) int {
	t.Helper()
	port, err := freeport.Find(n)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
