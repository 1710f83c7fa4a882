package builtin_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
	"github.com/openmanus/openmanus/env/fault"
	"github.com/openmanus/openmanus/env/pool"
)

// TestRequestFaults checks the error forms E3 and E4 of FastAPI.
func TestRequestFaults(t *testing.T) {
	u := serve(t, "textcraft", builtin.Options{}).URL
	post(t, u+"/create", `{}`)
	for _, tt := range []struct {
		name, method, path, kind, body string
		status                         int
		want                           string // the whole body, or a part of it if it begins with "~"
	}{
		{"unknown path", "GET", "/nothing", "", "", 404, `{"detail":"Not Found"}`},
		{"two slashes", "POST", "//create", "application/json", "{}", 404, `{"detail":"Not Found"}`},
		{"slash at the end", "POST", "/create/", "application/json", "{}", 307, ``},
		{"wrong method", "GET", "/create", "", "", 405, `{"detail":"Method Not Allowed"}`},
		{"no body", "POST", "/create", "", "", 422, `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":null}]}`},
		{"no content type", "POST", "/create", "", "{}", 422, `~"type":"model_attributes_type"`},
		{"wrong content type", "POST", "/create", "text/plain", "{}", 422, `~"input":"{}"`},
		{"content type with charset", "POST", "/create", "application/json; charset=utf-8", "{}", 200, `~"id":1`},
		{"malformed", "POST", "/step", "application/json", `{"id":0,`, 422, `~"type":"json_invalid","loc":["body",8]`},
		{"an array", "POST", "/step", "application/json", `[1]`, 422, `~"input":[1]`},
		{"null", "POST", "/step", "application/json", `null`, 422, `~"type":"model_attributes_type"`},
		{"missing action", "POST", "/step", "application/json", `{"id":0}`, 422, `{"detail":[{"type":"missing","loc":["body","action"],"msg":"Field required","input":{"id":0}}]}`},
		{"both missing", "POST", "/step", "application/json", `{}`, 422, `{"detail":[{"type":"missing","loc":["body","id"],"msg":"Field required","input":{}},{"type":"missing","loc":["body","action"],"msg":"Field required","input":{}}]}`},
		{"action a number", "POST", "/step", "application/json", `{"id":0,"action":5}`, 422, `{"detail":[{"type":"string_type","loc":["body","action"],"msg":"Input should be a valid string","input":5}]}`},
		{"action null", "POST", "/step", "application/json", `{"id":0,"action":null}`, 422, `~"type":"string_type"`},
		{"id a word", "POST", "/step", "application/json", `{"id":"x","action":""}`, 422, `~"type":"int_parsing"`},
		{"id a fraction", "POST", "/step", "application/json", `{"id":0.5,"action":""}`, 422, `~"type":"int_from_float"`},
		{"id null", "POST", "/step", "application/json", `{"id":null,"action":""}`, 422, `~"type":"int_type"`},
		{"id a list", "POST", "/step", "application/json", `{"id":[],"action":""}`, 422, `~"type":"int_type"`},
		{"id too large", "POST", "/step", "application/json", `{"id":1e300,"action":""}`, 422, `~"type":"int_parsing_size"`},
		{"id digits", "POST", "/step", "application/json", `{"id":"0","action":"x"}`, 200, `~Could not execute x`},
		{"id 0.0", "POST", "/step", "application/json", `{"id":0.0,"action":"x"}`, 200, `~Could not execute x`},
		{"id true", "POST", "/step", "application/json", `{"id":true,"action":"x","more":1}`, 200, `~Could not execute x`},
		{"no query", "GET", "/observation", "", "", 422, `{"detail":[{"type":"missing","loc":["query","id"],"msg":"Field required","input":null}]}`},
		{"query a word", "GET", "/goal?id=x", "", "", 422, `~"loc":["query","id"]`},
		{"too long", "POST", "/step", "application/json", strings.Repeat(" ", 1<<20+1), 413, `~too large`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, text := send(t, tt.method, u+tt.path, tt.kind, tt.body)
			if part, ok := strings.CutPrefix(tt.want, "~"); status != tt.status || ok && !strings.Contains(text, part) || !ok && text != tt.want {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	// A create request without declared fields may have any body.
	m := serve(t, "maze", builtin.Options{}).URL
	if status, _, text := send(t, "POST", m+"/maze/create", "text/plain", "{"); status != 200 || text != `{"id":0}` {
		t.Errorf("%d %s", status, text)
	}
}

func TestNew(t *testing.T) {
	if diff := cmp.Diff([]string{"maze", "textcraft", "wordle"}, builtin.Names()); diff != "" {
		t.Error(diff)
	}
	for _, name := range builtin.Names() {
		if _, err := env.Lookup(name); err != nil {
			t.Error(err)
		}
		if _, err := builtin.New(name, builtin.Options{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := builtin.New("webshop", builtin.Options{}); err == nil || !strings.Contains(err.Error(), "maze, textcraft, wordle") {
		t.Errorf("unknown name: %v", err)
	}
	if _, err := builtin.New("maze", builtin.Options{Recipes: builtin.OwnBook()}); err == nil {
		t.Error("maze with recipes: no error")
	}
}

func TestInstanceLimit(t *testing.T) {
	u := serve(t, "maze", builtin.Options{Instances: 2}).URL
	equal(t, post(t, u+"/maze/create", ""), `{"id":0}`)
	equal(t, post(t, u+"/maze/create", ""), `{"id":1}`)
	equal(t, post(t, u+"/maze/create", ""), `{"error":"The server is at its limit of 2 environments."}`)
	u = serve(t, "textcraft", builtin.Options{Instances: 1}).URL
	post(t, u+"/create", `{}`)
	equal(t, post(t, u+"/create", `{}`), `{"error":"The server is at its limit of 1 environments."}`)
	post(t, u+"/close", `{"id":0}`)
	if got := post(t, u+"/create", `{}`); !strings.Contains(got, `"id":1,`) {
		t.Error(got)
	}
}

// TestConcurrentEpisodes checks that concurrent episodes on two servers are all won. Episodes that share an instance
// would fail.
func TestConcurrentEpisodes(t *testing.T) {
	for name, experts := range map[string]struct {
		n    int
		plan func(int) []string
	}{
		"maze":      {builtin.MazeGames, builtin.MazeExpert},
		"textcraft": {60, builtin.TextcraftExpert},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := serve(t, name, builtin.Options{}), serve(t, name, builtin.Options{})
			spec, err := env.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := pool.New(spec, []string{a.URL, b.URL}, pool.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for i := range experts.n {
				wg.Go(func() {
					l, err := p.Acquire(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := l.Client().Reset(context.Background(), i); err != nil {
						t.Error(err)
					}
					var last env.StepResult
					for _, action := range experts.plan(i) {
						if last, err = l.Client().Step(context.Background(), "Action: "+action); err != nil {
							t.Error(err)
						}
					}
					if !last.Done || !spec.Success(last.Reward) {
						t.Errorf("episode %d: %+v", i, last)
					}
					l.Release()
				})
			}
			wg.Wait()
			if err := p.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestConcurrentRequests checks that concurrent steps of one instance are serialized and that no step is lost.
func TestConcurrentRequests(t *testing.T) {
	h, err := builtin.New("textcraft", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	do := func(path, body string) string {
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Body.String()
	}
	do("/create", `{}`)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { do("/step", `{"id":0,"action":"get 1 sand"}`) })
	}
	wg.Wait()
	var r struct{ Observation string }
	if err := json.Unmarshal([]byte(do("/step", `{"id":0,"action":"inventory"}`)), &r); err != nil || r.Observation != "Inventory: [sand] (50) " {
		t.Errorf("%q, %v", r.Observation, err)
	}
	ids := map[string]bool{}
	var mu sync.Mutex
	for range 20 {
		wg.Go(func() {
			got, _, _ := strings.Cut(do("/create", `{}`), ",")
			mu.Lock()
			ids[got] = true
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(ids) != 20 {
		t.Errorf("20 creates gave %d ids", len(ids))
	}
}

func TestServeEnds(t *testing.T) {
	if _, err := builtin.Serve(context.Background(), "maze", "256.0.0.1:0", builtin.Options{}); err == nil {
		t.Error("Serve on an invalid address: no error")
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := builtin.Serve(ctx, "maze", "127.0.0.1:0", builtin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, post(t, s.URL+"/maze/create", ""), `{"id":0}`)
	if _, err := builtin.Serve(ctx, "maze", strings.TrimPrefix(s.URL, "http://"), builtin.Options{}); err == nil {
		t.Error("a second server on the port: no error")
	}
	cancel()
	<-s.Done()
	for range 2 {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseWithRequestsInFlight checks that Close ends a hanging request.
func TestCloseWithRequestsInFlight(t *testing.T) {
	faults, err := fault.Parse("hang:1")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, "maze", builtin.Options{Faults: faults})
	created := make(chan error)
	go func() {
		spec, err := env.Lookup("maze")
		if err == nil {
			_, err = spec.New(context.Background(), env.Options{BaseURL: s.URL, Attempts: 1})
		}
		created <- err
	}()
	select {
	case err := <-created:
		t.Fatalf("the server replied: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := <-created; err == nil {
		t.Error("create returned a reply")
	}
}
