package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/algo/rundir/checkpoint"
	"github.com/openmanus/openmanus/algo/track"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/browsertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestParseAddr(t *testing.T) {
	for text, want := range map[string]string{
		"": DefaultAddr, "8080": "127.0.0.1:8080", "127.0.0.1:1": "127.0.0.1:1", "[::1]:80": "[::1]:80", ":80": ":80", "0.0.0.0:0": "0.0.0.0:0", "localhost:99": "localhost:99",
		"my.toml": "", "auto": "", "host:http": "", "1.2.3.4": "", "99999": "", "a:b:c": "",
	} {
		got, err := ParseAddr(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseAddr(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for addr, want := range map[string]bool{DefaultAddr: true, "[::1]:80": true, "localhost:99": true, ":80": false, "0.0.0.0:0": false, "192.168.1.2:80": false, "[::ffff:127.0.0.1]:1": true, "localhost.evil.com:80": false} {
		if local(addr) != want {
			t.Errorf("local(%q) = %v, want %v", addr, !want, want)
		}
	}
}

// TestAccess sends requests of readers and of strangers.
func TestAccess(t *testing.T) {
	reached := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reached") })
	cookie := func(port, token string) string { return "openmanus-dashboard-" + port + "=" + token }
	for _, c := range []struct {
		name, method, url, token string
		header                   map[string]string
		want                     int
	}{
		{name: "local", url: "http://127.0.0.1:7860/", want: 200},
		{name: "localhost through another port", url: "http://localhost:9000/events", want: 200},
		{name: "IPv6", url: "http://[::1]:7860/", want: 200},
		{name: "rebound name", url: "http://evil.example:7860/", want: 403},
		{name: "name that begins like localhost", url: "http://localhost.evil.example/", want: 403},
		{name: "other origin", url: "http://127.0.0.1:7860/events", header: map[string]string{"Origin": "http://evil.example"}, want: 403},
		{name: "null origin", url: "http://127.0.0.1:7860/events", header: map[string]string{"Origin": "null"}, want: 403},
		{name: "other port of the machine", url: "http://127.0.0.1:7860/events", header: map[string]string{"Origin": "http://127.0.0.1:1"}, want: 403},
		{name: "own origin", url: "http://127.0.0.1:7860/events", header: map[string]string{"Origin": "http://127.0.0.1:7860"}, want: 200},
		{name: "image on another site", url: "http://127.0.0.1:7860/", header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, want: 403},
		{name: "link on another site", url: "http://127.0.0.1:7860/", header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, want: 200},
		{name: "POST", method: "POST", url: "http://127.0.0.1:7860/", want: 405},
		{name: "no token", url: "http://host:7860/", token: "secret", want: 401},
		{name: "no token on this machine", url: "http://127.0.0.1:7860/", token: "secret", want: 401},
		{name: "wrong token", url: "http://host:7860/?token=secre", token: "secret", want: 401},
		{name: "empty token", url: "http://host:7860/?token=", token: "secret", want: 401},
		{name: "token", url: "http://host:7860/?token=secret", token: "secret", want: 303},
		{name: "cookie", url: "http://host:7860/events", token: "secret", header: map[string]string{"Cookie": cookie("7860", "secret")}, want: 200},
		{name: "wrong cookie", url: "http://host:7860/events", token: "secret", header: map[string]string{"Cookie": cookie("7860", "other")}, want: 401},
		{name: "cookie of another port", url: "http://host:7860/events", token: "secret", header: map[string]string{"Cookie": cookie("7861", "secret")}, want: 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(max(c.method, "GET"), c.url, nil)
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			access{c.token}.guard(reached).ServeHTTP(w, r)
			if w.Code != c.want || (w.Body.String() == "reached") != (c.want == 200) || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("status %d, body %q, want %d", w.Code, w.Body, c.want)
			}
			if c.want == 303 && (!strings.Contains(w.Header().Get("Set-Cookie"), "HttpOnly; SameSite=Strict") || w.Header().Get("Location") != "/") {
				t.Errorf("redirect %v", w.Header())
			}
		})
	}
}

// TestEpisodesAreBounded plays more and longer episodes than are kept.
func TestEpisodesAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	e := &episodes{now: func() time.Time { return now }}
	long := strings.Repeat("é", 10000)
	running := func(i int) rollout.Running { return rollout.Running{Env: "maze", Task: "t", UID: fmt.Sprint(i)} }
	for i := range maxRunning + 50 {
		e.Began(running(i), long)
		for range 40 {
			e.Turn(running(i), &data.Turn{Text: long, Observation: long, Action: long})
		}
	}
	l, changed := e.take(false)
	if !changed || l.Running != maxRunning+50 || len(l.Episodes) != maxRunning || l.Episodes[0].Turns != 40 {
		t.Errorf("%d running, %d listed, first %+v", l.Running, len(l.Episodes), l.Episodes[0])
	}
	d, ok := e.find(l.Episodes[3].ID)
	if !ok || len(d.Kept) != maxTurns || d.Kept[0].Nr != 40-maxTurns+1 || len(d.First) > maxText+5 || !strings.HasSuffix(d.Kept[0].Text, "é…") {
		t.Errorf("%d turns kept from %d on, first observation of %d bytes", len(d.Kept), d.Kept[0].Nr, len(d.First))
	}
	if _, changed := e.take(false); changed {
		t.Error("a second take reports a change")
	}
	for i := range maxRunning + 50 {
		e.Ended(running(i), &data.Episode{Outcome: data.Success, Reward: 1})
	}
	e.Ended(rollout.Running{UID: "never began"}, &data.Episode{Outcome: data.EnvError})
	if l, _ := e.take(false); l.Running != 0 || len(l.Episodes) != maxEnded || l.Episodes[0].Outcome != "success" || len(e.of) != 0 {
		t.Errorf("%d running and %d listed after the end, want 0 and %d", l.Running, len(l.Episodes), maxEnded)
	}
	e.Began(running(1), "again")
	if l, _ := e.take(false); l.Running != 1 || len(l.Episodes) != 1+maxEnded {
		t.Errorf("%d running, %d listed after a new episode", l.Running, len(l.Episodes))
	}
}

// TestSlowReaderIsDropped checks that sending never waits.
func TestSlowReaderIsDropped(t *testing.T) {
	var s streams
	slow, fast := s.open(), s.open()
	for i := range maxPending + 1 {
		s.send(message{event: fmt.Sprint(i)})
		<-fast
	}
	n := 0
	for range slow {
		n++
	}
	if n != maxPending || len(s.all) != 1 {
		t.Errorf("the slow reader received %d messages, and %d readers remain; want %d and 1", n, len(s.all), maxPending)
	}
	s.close(slow)
	s.close(fast)
	for range maxStreams {
		if s.open() == nil {
			t.Fatal("too few readers are accepted")
		}
	}
	if s.open() != nil {
		t.Error("too many readers are accepted")
	}
}

func TestLogTail(t *testing.T) {
	var l logTail
	log := slog.New((&Dashboard{log: logTail{}}).LogHandler())
	log.Info("not this one")
	for i := range maxRecords + 10 {
		_, _ = fmt.Fprintf(&l, "line %d %s\n", i, strings.Repeat("x", 5000))
	}
	lines, n := l.since(maxRecords + 7)
	if n != maxRecords+10 || len(lines) != 3 || !strings.HasPrefix(lines[0], fmt.Sprint("line ", maxRecords+7)) || len(lines[0]) > maxRecord+5 {
		t.Errorf("%d lines of %d", len(lines), n)
	}
	if all := l.until(n - 2); len(all) != maxRecords-2 || !strings.HasPrefix(all[0], "line 10 ") {
		t.Errorf("%d lines until the last two", len(all))
	}
	if all, _ := l.since(0); len(all) != maxRecords {
		t.Errorf("%d lines are kept, want %d", len(all), maxRecords)
	}
}

// play is a run that a test drives.
type play struct {
	t      *testing.T
	board  *Dashboard
	folder *rundir.Folder
	lock   *checkpoint.Lock
	sink   *track.JSONL
}

func start(t *testing.T) *play {
	t.Helper()
	folder := &rundir.Folder{Dir: filepath.Join(t.TempDir(), "demo")}
	check(t, folder.Make())
	check(t, os.WriteFile(folder.Config(), []byte("[trainer]\ntotal_steps = 3\n"), 0o644))
	lock, err := checkpoint.AcquireLock(folder.Dir)
	check(t, err)
	sink, err := track.OpenJSONL(folder.Metrics())
	check(t, err)
	board, err := Start(t.Context(), Options{
		Addr: "127.0.0.1:0", Now: time.Now, Phases: map[string]string{"gen": "playing"}, Log: slog.New(slog.DiscardHandler),
		Pieces: func(string, string) func([]int32) []string { return nil },
	})
	check(t, err)
	return &play{t, board, folder, lock, sink}
}

// step plays one step with one episode and writes its metrics and episodes.
func (p *play) step(n int) {
	p.t.Helper()
	p.board.Phase(algo.Phase{Name: "gen", Step: n, Steps: 3, Total: 2, Sampled: func() int { return 7 }})
	r := rollout.Running{Env: "maze", Task: fmt.Sprint("maze_", n), UID: fmt.Sprint(n)}
	p.board.Began(r, "You stand in a maze.")
	p.board.Turn(r, &data.Turn{Text: "Action: <b>move left</b>", Action: "move left", Parsed: true, Observation: "a wall", Reward: 0.5})
	p.board.Progress(1, "1 solved")
	p.board.Ended(r, &data.Episode{Outcome: data.Success, Reward: 1})
	ep := &data.Episode{Task: data.Task{ID: "maze_1", Env: "maze"}, Outcome: data.Success, Turns: []data.Turn{{Text: "recorded reply"}}}
	check(p.t, p.folder.WriteEpisodes(n, []*data.Episode{ep}))
	m := track.Metrics{track.SuccessRate: float64(n) / 4, track.Timing("gen"): 2, track.TimingStep: 2}
	if n == 2 {
		m["val/maze/success_rate"], m["val/maze/episodes"] = 0.5, 20
	}
	check(p.t, p.sink.Write(track.Line{Phase: track.PhaseTrain, Step: n, Metrics: m}))
	p.board.Step(n, 3, m)
}

// end ends the run as openmanus train does.
func (p *play) end() {
	p.t.Helper()
	check(p.t, p.sink.Close())
	dir := filepath.Join(p.folder.Checkpoints(), "step_000003")
	check(p.t, os.MkdirAll(dir, 0o755))
	check(p.t, (&rundir.State{Step: 3, Finished: true}).Write(dir))
	check(p.t, p.lock.Release())
	check(p.t, p.board.End())
}

// events reads a stream until the function until returns true, and returns the data by event.
func events(t *testing.T, in *bufio.Scanner, until func(event, data string) bool) {
	t.Helper()
	event := ""
	for in.Scan() {
		if name, ok := strings.CutPrefix(in.Text(), "event: "); ok {
			event = name
		}
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && until(event, data) {
			return
		}
	}
	t.Fatalf("the stream ended: %v", in.Err())
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	check(t, err)
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	check(t, err)
	return r, string(b)
}

// TestStream follows a run from its first event to its end.
func TestStream(t *testing.T) {
	p := start(t)
	url := strings.TrimSuffix(p.board.URL(), "/")
	if _, page := get(t, url); !strings.Contains(page, `id="live"`) {
		t.Error("no page before the run folder is open")
	}
	// The file has the lines of a resumed run, of which the run cuts the last before its first event.
	check(t, p.sink.Write(track.Line{Phase: track.PhaseTrain, Step: 1, Metrics: track.Metrics{track.SuccessRate: 0.9}}))
	p.board.Opened(p.folder)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/events", nil)
	check(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Do(request)
	check(t, err)
	defer func() { _ = reply.Body.Close() }()
	in := bufio.NewScanner(reply.Body)
	in.Buffer(nil, 1<<24)
	var first []string
	events(t, in, func(event, data string) bool {
		first = append(first, event)
		return event == "log"
	})
	if got := strings.Join(first, " "); got != "run phase playing log" {
		t.Errorf("the stream begins with %s", got)
	}
	check(t, p.sink.TruncateTo(0))
	log := slog.New(p.board.LogHandler())
	log.Debug("too detailed")
	log.Warn("a server went away", "server", "maze")
	p.step(1)
	seen := map[string]bool{}
	var run struct {
		Run struct {
			Series map[string]map[string]struct{ X, Y []float64 }
		}
	}
	events(t, in, func(event, data string) bool {
		switch event {
		case "run":
			check(t, json.Unmarshal([]byte(data), &run))
			seen[event] = len(run.Run.Series["train"][track.SuccessRate].Y) > 0
		case "log":
			seen[event] = strings.Contains(data, "level=WARN msg=\\\"a server went away\\\" server=maze") && !strings.Contains(data, "too detailed")
		case "phase":
			seen[event] = strings.Contains(data, `"label":"playing"`) && strings.Contains(data, `"n":1,"total":2`) && strings.Contains(data, `"tokens":7`)
		case "playing":
			seen[event] = strings.Contains(data, `"task":"maze_1"`) && strings.Contains(data, `"outcome":"success"`)
		}
		return seen["run"] && seen["log"] && seen["phase"] && seen["playing"]
	})
	if y := run.Run.Series["train"][track.SuccessRate].Y; len(y) != 1 || y[0] != 0.25 {
		t.Errorf("success %v after the resumed run has repeated step 1, want 0.25", y)
	}
	p.step(2)
	events(t, in, func(event, data string) bool {
		return event == "grown" && strings.Contains(data, `"step":2`) && strings.Contains(data, `"label":"step 2"`) && strings.Contains(data, `"href":"episodes?file=step_2.jsonl"`)
	})

	if r, text := get(t, url+"/episodes?file=step_2.jsonl"); r.StatusCode != 200 || !strings.Contains(text, "recorded reply") {
		t.Errorf("recorded episodes: status %d", r.StatusCode)
	}
	for _, path := range []string{"/episodes?file=..%2F..%2Fconfig.toml", "/episodes?file=", "/episode?id=99", "/episode?id=x", "/other"} {
		if r, _ := get(t, url+path); r.StatusCode != 404 {
			t.Errorf("%s: status %d, want 404", path, r.StatusCode)
		}
	}
	if r, text := get(t, url+"/episode?id=1"); r.StatusCode != 200 || !strings.Contains(text, `\u003cb\u003emove left`) || !strings.Contains(text, "You stand in a maze.") {
		t.Errorf("episode: status %d, %s", r.StatusCode, text)
	}
	if r, text := get(t, url+"/report.html"); r.StatusCode != 200 || strings.Contains(text, "connect-src") || strings.Contains(text, "EventSource") {
		t.Errorf("saved page: status %d", r.StatusCode)
	}
	p.step(3)
	p.end()
	events(t, in, func(event, data string) bool { return event == "end" && strings.Contains(data, `"state":"finished"`) })
	if in.Scan() && in.Text() != "" || in.Scan() {
		t.Errorf("%q follows the end", in.Text())
	}
}

// TestEndWithReaders ends a run while a reader does not read.
func TestEndWithReaders(t *testing.T) {
	p := start(t)
	p.board.Opened(p.folder)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.board.URL()+"events", nil)
	check(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Do(request)
	check(t, err)
	defer func() { _ = reply.Body.Close() }()
	for n := 1; n <= 3; n++ {
		p.step(n)
	}
	p.end()
}

// TestPortInUse checks that the default port is not needed, and that another one is.
func TestPortInUse(t *testing.T) {
	p := start(t)
	defer p.end()
	addr := strings.TrimSuffix(strings.TrimPrefix(p.board.URL(), "http://"), "/")
	if _, err := Start(t.Context(), Options{Addr: addr, Now: time.Now, Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("two dashboards share a port")
	}
	for range 2 {
		d, err := Start(t.Context(), Options{Addr: DefaultAddr, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		check(t, err)
		defer func() { check(t, d.End()) }()
	}
}

// TestNetworkAddressNeedsToken starts on every interface.
func TestNetworkAddressNeedsToken(t *testing.T) {
	d, err := Start(t.Context(), Options{Addr: "0.0.0.0:0", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	check(t, err)
	defer func() { check(t, d.End()) }()
	_, token, ok := strings.Cut(d.URL(), "/?token=")
	if !ok || len(token) < 20 {
		t.Fatalf("the address is %s, want a token", d.URL())
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(d.server.URL, "http://[::"), "]:")
	if port == "" {
		_, port, _ = strings.Cut(strings.TrimPrefix(d.server.URL, "http://"), ":")
	}
	url := "http://127.0.0.1:" + port + "/"
	if r, _ := get(t, url); r.StatusCode != 401 {
		t.Errorf("without the token: status %d, want 401", r.StatusCode)
	}
	jar := &oneCookie{}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Jar: jar}
	r, err := client.Get(url + "?token=" + token)
	check(t, err)
	b, err := io.ReadAll(r.Body)
	check(t, err)
	check(t, r.Body.Close())
	if r.StatusCode != 200 || !bytes.Contains(b, []byte(`id="live"`)) || strings.Contains(r.Request.URL.String(), token) {
		t.Errorf("with the token: status %d at %s", r.StatusCode, r.Request.URL)
	}
}

// TestLiveInBrowser opens the page on a phone and on a desktop, and changes the run under it.
func TestLiveInBrowser(t *testing.T) {
	for _, c := range []struct {
		width int
		dark  bool
	}{{390, true}, {1400, false}} {
		t.Run(fmt.Sprint(c.width), func(t *testing.T) {
			p := start(t)
			p.board.Opened(p.folder)
			p.step(1)
			handler := http.NewServeMux()
			handler.Handle("/", p.board.Handler())
			handler.HandleFunc("GET /-step", func(http.ResponseWriter, *http.Request) { p.step(2) })
			handler.HandleFunc("GET /-end", func(http.ResponseWriter, *http.Request) {
				p.step(3)
				p.end()
			})
			var got struct {
				Before, After, Ended, Points   int
				State, Final, Turns, Phase     string
				Log, Rows, Bold, Width, Scroll int
				Left                           string
			}
			slog.New(p.board.LogHandler()).Warn("<b>markup</b>")
			browsertest.Run(t, browsertest.Page{Handler: handler, Host: "127.0.0.1", Width: c.width, Dark: c.dark, Script: `
			  const d = page.document, out = {};
			  const circles = function () { return d.querySelectorAll("#chart-success .plot circle:not(.hollow)").length; };
			  await wait(function () { return d.querySelector("#live-state").dataset.state === "running" && circles() === 1; });
			  out.Before = circles();
			  await wait(function () { return d.querySelector("#live-list button"); });
			  d.querySelector("#live-list button").click();
			  await wait(function () { return d.querySelectorAll("#live-turns pre").length > 2; });
			  out.Turns = d.querySelector("#live-turns").textContent;
			  await fetch("/-step");
			  await wait(function () { return circles() === 2; });
			  out.After = circles();
			  out.Points = d.querySelectorAll("#chart-success .plot circle.hollow").length;
			  out.Rows = d.querySelectorAll("#validation-rows tr").length;
			  out.Phase = d.querySelector("#live-phase").textContent + " " + d.querySelector("#live-note").textContent;
			  out.Log = d.querySelectorAll("#live-log .warn").length;
			  out.Bold = d.querySelectorAll("#live-log b, #live-turns b").length;
			  out.Width = page.innerWidth;
			  out.Scroll = d.documentElement.scrollWidth;
			  await fetch("/-end");
			  await wait(function () { return d.querySelector("#live-state").dataset.state === "finished" && circles() === 3; });
			  out.Ended = circles();
			  out.Final = d.querySelector("#live-state").textContent + " " + d.querySelector("#summary tbody tr").textContent;
			  return out;`}, &got)
			if got.Before != 1 || got.After != 2 || got.Ended != 3 || got.Points != 1 || got.Rows != 1 {
				t.Errorf("%d, then %d, then %d points, %d validation points, %d rows; want 1, 2, 3, 1, 1", got.Before, got.After, got.Ended, got.Points, got.Rows)
			}
			if !strings.Contains(got.Turns, "You stand in a maze.") || !strings.Contains(got.Turns, "<b>move left</b>") || got.Bold != 0 {
				t.Errorf("turns %q, %d elements of markup", got.Turns, got.Bold)
			}
			if !strings.Contains(got.Phase, "step 2/3 playing 1/2, 1 solved, 7 tokens sampled") || got.Log != 1 {
				t.Errorf("phase %q, %d warnings", got.Phase, got.Log)
			}
			if !strings.Contains(got.Final, "finished") || !strings.Contains(got.Final, "3/3") {
				t.Errorf("at the end: %q", got.Final)
			}
			if got.Scroll > c.width || got.Width != c.width {
				t.Errorf("the page is %d wide in a frame of %d", got.Scroll, got.Width)
			}
		})
	}
}
