// Package listentest finds ports for tests whose servers are other processes
// and so must be told a port before they listen.
package listentest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports are drawn from below those that systems give to outgoing
// connections and to listeners on port 0 (from 32768 on Linux, from 49152 by
// RFC 6335): a port of theirs that is free now may be anyone's a moment later.
const (
	first = 20000
	last  = 32000
)

// Ports returns the first of n consecutive ports of 127.0.0.1 and 0.0.0.0 that
// nobody listens on. Nothing reserves them; two tests at once draw the same
// ones once in thousands of times.
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
