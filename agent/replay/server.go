package replay

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

// server is an http.RoundTripper that answers the requests of one episode from
// the record, without a connection. Only the episode's goroutine uses it.
type server struct {
	exchanges []data.Exchange
	next      int
	prefix    string // path prefix of the recorded server
	turn      *int   // number of the episode's newest turn, from 1
	found     *findings
}

// baseURL is the address of a server that cannot exist (RFC 6761, 6.4).
const baseURL = "http://recorded.invalid"

var errNoExchange = errors.New("the record has no further exchange")

// RoundTrip returns the reply of the next exchange and records a difference if
// the request differs from the recorded one.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	path, text := req.URL.RequestURI(), strings.ToValidUTF8(string(body), "\uFFFD")
	if s.next == len(s.exchanges) {
		s.found.add(Difference{Turn: *s.turn, What: InRequest, Recorded: "nothing", Replayed: around(req.Method+" "+path+" "+text, 0)})
		return nil, errNoExchange
	}
	x := &s.exchanges[s.next]
	if s.next++; s.next == 1 {
		if prefix, ok := strings.CutSuffix(x.Path, path); ok {
			s.prefix = prefix
		}
	}
	s.found.texts(*s.turn, InRequest, x.Method+" "+x.Path+" "+x.Body, req.Method+" "+s.prefix+path+" "+text)
	if sum := x.Checksum(); x.Sum != 0 && x.Sum != sum {
		s.found.add(Difference{Turn: *s.turn, What: InReply, Recorded: fmt.Sprintf("checksum %08x", x.Sum), Replayed: fmt.Sprintf("%08x of %s", sum, around(x.Reply, 0))})
	}
	if x.Status == 0 {
		if trace := httptrace.ContextClientTrace(req.Context()); x.Sent && trace != nil && trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{}) // makes the client count the request as sent, as in the record
		}
		return nil, errors.New(x.Err)
	}
	var reply io.Reader = strings.NewReader(x.Reply)
	if strings.Contains(x.Err, string(env.KindConnection)) { // the reply was truncated
		reply = io.MultiReader(reply, brokenBody{})
	}
	return &http.Response{
		Status: http.StatusText(x.Status), StatusCode: x.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(reply), ContentLength: -1, Request: req,
	}, nil
}

// brokenBody is the reader at the end of a truncated reply.
type brokenBody struct{}

// Read returns the error of net/http for a truncated body.
func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// ended records a difference if a recorded exchange was not requested.
func (s *server) ended(turn int) {
	if s.next < len(s.exchanges) {
		x := &s.exchanges[s.next]
		s.found.add(Difference{Turn: turn, What: InRequest, Recorded: around(x.Method+" "+x.Path+" "+x.Body, 0), Replayed: "nothing"})
	}
}
