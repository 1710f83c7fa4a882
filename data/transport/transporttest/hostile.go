// Package transporttest runs servers that never complete a reply, for tests. The
// listener, the connections and their goroutines end with the test.
package transporttest

import (
	"net"
	"sync"
	"testing"
)

// Hostile maps a name to the bytes that a server sends in place of a reply.
var Hostile = map[string]string{
	"switches protocols": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
	"endless hints":      "HTTP/1.1 103 Early Hints\r\n\r\n",
	"endless 100":        "HTTP/1.1 100 Continue\r\n\r\n",
}

// Serve runs a server that answers every request with reply, a value of Hostile. It
// sends the value of "switches protocols" once and repeats the other values endlessly.
// It closes no connection before the end of the test.
func Serve(t *testing.T, reply string) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				<-done
				conn.Close()
			})
			wg.Go(func() {
				if _, err := conn.Read(make([]byte, 4096)); err != nil {
					return
				}
				for {
					if _, err := conn.Write([]byte(reply)); err != nil || reply == Hostile["switches protocols"] {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		close(done)
		ln.Close()
		wg.Wait()
	})
	return "http://" + ln.Addr().String()
}
