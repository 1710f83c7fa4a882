// Package freeport finds free TCP ports for programs that need the number of a port
// before they listen.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// first and last are the usual range of ports. It lies below the ports that systems
// assign to outgoing connections and to listeners on port 0 (from 32768 on Linux, from
// 49152 by RFC 6335), since another process may take such a port at any time.
const (
	first = 20000
	last  = 32000
)

// Find returns the first of n consecutive ports without a listener on 127.0.0.1 and
// on all addresses. It does not reserve them, but two callers are unlikely to draw the
// same ports at the same time.
func Find(n int) (int, error) {
	low, high := span(assigned())
	for range 200 {
		base := low + rand.IntN(high-low-n)
		if free(base, n) {
			return base, nil
		}
	}
	return 0, fmt.Errorf("find a free port: 200 draws found no %d consecutive free ports between %d and %d; end programs that listen there", n, low, high)
}

// assigned returns the lowest port that the system assigns, or the highest port if the
// system does not tell.
func assigned() int {
	low := 65535
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(b), &low) // unchanged if the file has another form
	}
	return low
}

// span returns the range of ports to draw from on a system that assigns those from low
// on: first to last, or a range of the same length below low. If there is no room below
// it, another process may take the ports.
func span(low int) (int, int) {
	if low >= last || low-(last-first) < 1024 {
		return first, last
	}
	return low - (last - first), low
}

func free(base, n int) bool {
	for port := base; port < base+n; port++ {
		for _, host := range []string{"127.0.0.1", ""} {
			ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				return false
			}
			_ = ln.Close() // it has no connections
		}
	}
	return true
}
