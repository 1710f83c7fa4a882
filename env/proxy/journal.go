package proxy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// Counts contains the counts of a proxy.
type Counts struct {
	Requests       int64          `json:"requests"`
	Faults         map[string]int `json:"faults"`          // by kind; a status such as 503 is a kind
	UpstreamErrors int            `json:"upstream_errors"` // failures of the server itself
}

// entry is a line of the journal.
type entry struct {
	Time    string  `json:"time"`
	Request int64   `json:"request"` // number of the request, from 1
	Kind    string  `json:"kind"`    // kind of the fault, or "upstream"
	Method  string  `json:"method"`
	Path    string  `json:"path"`
	PauseMs float64 `json:"pause_ms,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// injected counts a fault.
func (s *Server) injected(r *http.Request, kind string, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Faults[kind]++
	s.write(r, entry{Kind: kind, PauseMs: float64(pause.Microseconds()) / 1000})
}

// write appends a line to the journal. After a failure it writes no further lines, so
// that the file ends with a complete line. The caller must hold mu.
func (s *Server) write(r *http.Request, e entry) {
	if s.journal == nil || s.journalErr != nil {
		return
	}
	e.Request, _ = r.Context().Value(numberKey{}).(int64)
	e.Time, e.Method, e.Path = s.now().UTC().Format(time.RFC3339Nano), r.Method, r.URL.RequestURI()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = s.journal.Write(append(line, '\n'))
	}
	if err != nil {
		s.journalErr = fmt.Errorf("journal of faults: %w", err)
	}
}

// Counts returns the counts so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Faults = maps.Clone(c.Faults)
	return c
}

func (s *Server) serveCounts(w http.ResponseWriter) {
	b, err := json.Marshal(s.Counts())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // the client may have disconnected
}

// SeenAs returns the name under which clients of package env count a fault of the
// given kind (env.Error.Seen).
func SeenAs(kind string) string {
	switch kind {
	case "hang":
		return "timeout"
	case "truncate":
		return "truncated"
	case "reset", "slow", "duplicate":
		return kind
	}
	return "http_" + kind
}
