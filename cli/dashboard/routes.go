package dashboard

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/openmanus/openmanus/algo/report"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/data/table"
	"github.com/openmanus/openmanus/data/view"
)

//go:embed live.html
var liveHTML string

//go:embed live.css
var liveCSS string

//go:embed live.js
var liveJS string

// Handler returns the handler of the server.
func (d *Dashboard) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", d.page)
	mux.HandleFunc("GET /report.html", d.page)
	mux.HandleFunc("GET /events", d.events)
	mux.HandleFunc("GET /episode", d.episode)
	mux.HandleFunc("GET /episodes", d.recorded)
	return d.access.guard(mux)
}

// page writes the page. /report.html is the page without its connection to the server, to be kept.
func (d *Dashboard) page(w http.ResponseWriter, r *http.Request) {
	d.pass()
	live := r.URL.Path == "/"
	o := report.Options{Title: "openmanus", Made: d.o.Made, Now: d.o.Now()}
	d.reading.Lock()
	var runs []*report.Run
	if d.run != nil {
		runs = report.NewData([]*report.Run{d.run}).Runs // a copy
		if o.Title += ": " + runs[0].Name; live {
			runs[0].Episodes = links(d.run.Rollouts)
		}
	}
	d.reading.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if live {
		o.Extra = report.Extra{HTML: template.HTML(liveHTML), CSS: template.CSS(liveCSS), JS: template.JS(liveJS), Connect: true}
	} else {
		w.Header().Set("Content-Disposition", `attachment; filename="report.html"`)
	}
	if err := report.Write(w, runs, o); err != nil { // the browser has gone
		d.o.Log.Debug("dashboard", "error", err)
	}
}

// events is the stream of changes.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	d.pass()
	d.reading.Lock()
	c := d.streams.open()
	var first []message
	if c != nil {
		first = d.first()
	}
	d.reading.Unlock()
	if c == nil {
		http.Error(w, fmt.Sprintf("the dashboard has %d readers or is ending", maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer d.streams.close(c)
	d.streams.serve(w, r, c, first)
}

// episode answers with the newest turns of a running episode.
func (d *Dashboard) episode(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.URL.Query().Get("id"))
	found, ok := d.find(id)
	if err != nil || !ok {
		http.Error(w, "the episode is not followed any more", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(d.message("episode", found).data) // an error means that the browser has gone
}

// maxShown bounds the episodes of a page.
const maxShown = 200

// errEnough ends the reading of a file.
var errEnough = errors.New("enough episodes")

// recorded writes the page of a file of episodes.
func (d *Dashboard) recorded(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("file")
	d.reading.Lock()
	folder, known := "", false
	if d.run != nil {
		folder, known = d.run.Folder, slices.Contains(d.run.Rollouts, name)
	}
	d.reading.Unlock()
	if !known {
		http.Error(w, "the run has no such file of episodes, or has removed it (trainer.keep_rollouts)", http.StatusNotFound)
		return
	}
	path := filepath.Join((&rundir.Folder{Dir: folder}).Rollouts(), name)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page, err := view.NewPage(w, view.Options{Title: "episodes of " + view.Origin(name), Note: fmt.Sprintf("At most %d episodes", maxShown), Pieces: d.o.Pieces(folder, path)})
	if err == nil {
		n := 0
		_, err = table.ReadSource(r.Context(), path, func(e *table.Entry) error {
			if n++; n > maxShown {
				return errEnough
			}
			if e.Episode == nil {
				return fmt.Errorf("row %d is no episode", e.N)
			}
			return page.Add(name, e.N, e.Episode)
		})
		if err == nil || n > maxShown {
			err = page.Close()
		}
	}
	if err != nil { // the beginning of the page is already sent
		d.o.Log.Debug("dashboard", "file", name, "error", err)
	}
}
