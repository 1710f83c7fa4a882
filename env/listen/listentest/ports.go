// Package listentest finds free ports for tests that start servers as other
// processes, which need a port number before they listen.
package listentest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// first and last are the range of ports. It lies below the ports that systems assign
// to outgoing connections and to listeners on port 0 (from 32768 on Linux, from 49152
// by RFC 6335), since another process may take such a port at any time.
const (
	first = 20000
	last  = 32000
)

// Ports returns the first of n consecutive ports without a listener on 127.0.0.1 and
// 0.0.0.0. It does not reserve them, but two concurrent tests are unlikely to draw
// the same ports.
func Ports(t testing.TB, n int) int {
	t.Helper()
	for range 200 {
		base := first + rand.IntN(last-first-n)
		if free(base, n) {
			return base
		}
	}
	t.Fatalf("no %d consecutive free ports between %d and %d", n, first, last)
	return 0
}

func free(base, n int) bool {
	for port := base; port < base+n; port++ {
		for _, host := range []string{"127.0.0.1", ""} {
			ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				return false
			}
			_ = ln.Close()
		}
	}
	return true
}
