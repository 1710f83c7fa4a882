// Package transporttest has servers for tests that never come to a reply.
//
// It owns their listeners and connections, which end with the test.
//
// Concurrency: Serve returns before the test's own goroutine asks anything; each
// connection has a goroutine, and all have ended when the test has.
package transporttest

import (
	"net"
	"sync"
	"testing"
)

// Hostile are the ways never to reply, by name.
var Hostile = map[string]string{
	"switches protocols": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
	"endless hints":      "HTTP/1.1 103 Early Hints\r\n\r\n",
	"endless 100":        "HTTP/1.1 100 Continue\r\n\r\n",
}

// Serve runs a server that sends what to every request: once if it switches
// protocols, and else for ever. It never ends a connection itself.
func Serve(t *testing.T, what string) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	over := make(chan struct{})
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				<-over
				conn.Close()
			})
			wg.Go(func() {
				if _, err := conn.Read(make([]byte, 4096)); err != nil {
					return
				}
				for {
					if _, err := conn.Write([]byte(what)); err != nil || what == Hostile["switches protocols"] {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		close(over)
		ln.Close()
		wg.Wait()
	})
	return "http://" + ln.Addr().String()
}
