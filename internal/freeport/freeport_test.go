package freeport

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestFind checks that the ports are free, and that the system does not assign them to
// other sockets.
func TestFind(t *testing.T) {
	assigned := 32768
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if assigned, err = strconv.Atoi(strings.Fields(string(b))[0]); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		port, err := Find(2)
		if err != nil {
			t.Fatal(err)
		}
		for p := port; p < port+2; p++ {
			if p < 1024 || p >= assigned {
				t.Errorf("port %d; the system assigns those from %d on", p, assigned)
			}
			ln, err := net.Listen("tcp", ":"+strconv.Itoa(p))
			if err != nil {
				t.Fatal(err)
			}
			if free(p, 1) {
				t.Errorf("port %d has a listener and counts as free", p)
			}
			if err := ln.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
