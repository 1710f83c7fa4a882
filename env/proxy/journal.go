package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/openmanus/openmanus/env/fault"
)

// Counts has the counts of a proxy.
type Counts struct {
	Requests       int64          `json:"requests"`
	Faults         map[string]int `json:"faults"`          // by kind; a status counts under its number
	UpstreamErrors int            `json:"upstream_errors"` // failures of the server itself
}

// entry is a line of the journal.
type entry struct {
	Time    string  `json:"time"`
	Request int64   `json:"request"` // number of the request, from 1
	Kind    string  `json:"kind"`    // of the fault, or "upstream"
	Method  string  `json:"method"`
	Path    string  `json:"path"`
	PauseMs float64 `json:"pause_ms,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// journal counts faults and writes them to a file.
type journal struct {
	now func() time.Time

	mu     sync.Mutex
	out    io.Writer      // guarded by mu; nil: nothing is written
	err    error          // the first failure to write; guarded by mu
	faults map[string]int // guarded by mu
	failed int            // guarded by mu
}

func newJournal(out io.Writer, now func() time.Time) *journal {
	if now == nil {
		now = time.Now
	}
	return &journal{now: now, out: out, faults: map[string]int{}}
}

func (j *journal) fault(n int64, r *http.Request, f fault.Injected) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults[f.Kind]++
	j.write(entry{Request: n, Kind: f.Kind, PauseMs: float64(f.Pause.Microseconds()) / 1000}, r)
}

func (j *journal) upstream(n int64, r *http.Request, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed++
	j.write(entry{Request: n, Kind: "upstream", Error: err.Error()}, r)
}

// write appends a line. After a failure it writes nothing more, so that the file ends
// with a complete line. The caller must hold mu.
func (j *journal) write(e entry, r *http.Request) {
	if j.out == nil || j.err != nil {
		return
	}
	e.Time, e.Method, e.Path = j.now().UTC().Format(time.RFC3339Nano), r.Method, r.URL.RequestURI()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.out.Write(append(line, '\n'))
	}
	if err != nil {
		j.err = fmt.Errorf("journal of faults: %w", err)
	}
}

func (j *journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Counts returns the counts so far.
func (p *Proxy) Counts() Counts {
	p.journal.mu.Lock()
	defer p.journal.mu.Unlock()
	return Counts{Requests: p.arrived.Load(), Faults: maps.Clone(p.journal.faults), UpstreamErrors: p.journal.failed}
}

func (p *Proxy) serveCounts(w http.ResponseWriter) {
	b, err := json.Marshal(p.Counts())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // the client may have disconnected
}
