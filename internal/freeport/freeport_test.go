package freeport

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestFind checks that the ports are free, and that the system does not assign them to
// other sockets, if it leaves room below those that it assigns.
func TestFind(t *testing.T) {
	assigned := 32768
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if assigned, err = strconv.Atoi(strings.Fields(string(b))[0]); err != nil {
			t.Fatal(err)
		}
	}
	_, high := span(assigned)
	for range 20 {
		port, err := Find(2)
		if err != nil {
			t.Fatal(err)
		}
		for p := port; p < port+2; p++ {
			if p < 1024 || p >= assigned && high <= assigned {
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

func TestSpan(t *testing.T) {
	for low, want := range map[int][2]int{
		65535: {20000, 32000},
		32768: {20000, 32000},
		32000: {20000, 32000},
		31999: {19999, 31999},
		15000: {3000, 15000},
		10000: {20000, 32000}, // too few below it
		1024:  {20000, 32000},
	} {
		if a, b := span(low); a != want[0] || b != want[1] {
			t.Errorf("span(%d) = %d, %d; want %d, %d", low, a, b, want[0], want[1])
		}
	}
}
