package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/reward"
)

func samples(n int) []reward.Sample {
	out := make([]reward.Sample, n)
	for i := range out {
		out[i] = reward.Sample{ID: fmt.Sprint(i), Response: strings.Repeat("x", i+1), Tokens: -1}
	}
	return out
}

func open(t *testing.T, fn string, o Options) reward.Scorer {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	s, err := Open(fn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// kindOf returns the Kind of an error.
func kindOf(t *testing.T, err error) Kind {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is not an *Error", err)
	}
	return e.Kind
}

func wantLengths(n int) []reward.Score {
	var out []reward.Score
	for i := range n {
		s := reward.Score{Value: float64(i + 1)}
		if i%2 == 1 {
			s.Extra = map[string]float64{"odd": 1}
		}
		out = append(out, s)
	}
	return out
}

func serve(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL + "/score"
}

func TestScores(t *testing.T) {
	var requests atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		var q request
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", r.Method, err)
		}
		fmt.Fprint(w, lengths(q))
	})
	for _, fn := range []string{url, "exec:/proc/self/exe length"} {
		s := open(t, fn, Options{Batch: 4})
		for _, n := range []int{4, 10, 0} { // one process scores all three lists
			got, err := s.Score(t.Context(), samples(n))
			if err != nil {
				t.Fatal(err)
			}
			var want []reward.Score
			for at := 0; at < n; at += 4 {
				want = append(want, wantLengths(n)[at:min(at+4, n)]...)
			}
			if d := cmp.Diff(want, got, cmp.Transformer("empty", func(s []reward.Score) []reward.Score { return append([]reward.Score{}, s...) })); d != "" {
				t.Errorf("%s: %s", fn, d)
			}
		}
	}
	if requests.Load() != 4 {
		t.Errorf("%d requests for 4 and 10 samples in batches of 4, want 4", requests.Load())
	}
}

// TestRequest checks the request that docs/rewards.md documents.
func TestRequest(t *testing.T) {
	got, err := encode(3, []reward.Sample{
		{ID: "maze_3", Source: "maze", Prompt: "p", Response: "<a>", GroundTruth: "g", EnvReward: 0.5, Tokens: 7, Turns: []data.Turn{{Text: "<a>", Action: "a", Parsed: true, Observation: "o", Reward: 0.5}}},
		{ID: "1", Tokens: -1},
	})
	want := `{"request":3,"samples":[{"id":"maze_3","data_source":"maze","prompt":"p","response":"<a>","ground_truth":"g","env_reward":0.5,"tokens":7,` +
		`"turns":[{"text":"<a>","action":"a","parsed":true,"observation":"o","reward":0.5}]},` +
		`{"id":"1","data_source":"","prompt":"","response":"","ground_truth":"","env_reward":0}]}` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestScoresPerTurn checks that a reply may hold a number for each turn of an episode.
func TestScoresPerTurn(t *testing.T) {
	episode := reward.Sample{ID: "e", Turns: []data.Turn{{Text: "a"}, {Text: "b"}}, Tokens: -1}
	reply := `{"request":1,"scores":[[0.5,-2],{"score":[1,0],"steps":2},3,[4]]}`
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, reply) })
	for _, fn := range []string{url, "exec:/proc/self/exe say '" + reply + "'"} {
		got, err := open(t, fn, Options{}).Score(t.Context(), []reward.Sample{episode, episode, episode, {ID: "one reply", Tokens: -1}})
		if err != nil {
			t.Fatal(err)
		}
		want := []reward.Score{
			{Value: -1.5, Turns: []float64{0.5, -2}}, {Value: 1, Turns: []float64{1, 0}, Extra: map[string]float64{"steps": 2}}, {Value: 3}, {Value: 4, Turns: []float64{4}},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", fn, d)
		}
	}
}

// TestInvalidReplies checks that an invalid reply of a server or a program fails
// without a retry.
func TestInvalidReplies(t *testing.T) {
	for _, c := range []struct{ reply, want string }{
		{`{"request":1,"scores":[1]}`, "1 scores for 2 samples"},
		{`{"request":1,"scores":[1,2,3]}`, "3 scores for 2 samples"},
		{`{"request":1,"scores":[1,NaN]}`, "is not {"},
		{`{"request":1,"scores":[1,1e999]}`, "neither a number, nor"},
		{`{"request":1,"scores":[1,null]}`, "score 1: the score is null"},
		{`{"request":1,"scores":[1,"2"]}`, "score 1"},
		{`{"request":1,"scores":[1,{"scroe":2}]}`, "\"score\" of"},
		{`{"request":1,"scores":[1,{"score":null}]}`, "the score is null"},
		{`{"request":1,"scores":[1,[]]}`, "0 numbers for 1 turns"},
		{`{"request":1,"scores":[1,[1,2]]}`, "2 numbers for 1 turns"},
		{`{"request":1,"scores":[1,{"score":[1,2]}]}`, "2 numbers for 1 turns"},
		{`{"request":1,"scores":[1,[null]]}`, "the number of turn 1 is null"},
		{`{"request":1,"scores":[1,[NaN]]}`, "is not {"},
		{`{"request":1,"scores":[1,["2"]]}`, "nor a list of numbers"},
		{`{"request":1,"scores":[1,[[2]]]}`, "nor a list of numbers"},
		{`{"request":1}`, `has no "scores"`},
		{`loading model`, "is not {"},
		{`[1,2]`, "is not {"},
	} {
		var requests atomic.Int32
		url := serve(t, func(w http.ResponseWriter, r *http.Request) { requests.Add(1); fmt.Fprint(w, c.reply) })
		for _, fn := range []string{url, "exec:/proc/self/exe say '" + c.reply + "'"} {
			_, err := open(t, fn, Options{}).Score(t.Context(), samples(2))
			if kind := kindOf(t, err); kind != KindReply || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), fn) {
				t.Errorf("%s: %v", c.reply, err)
			}
		}
		if requests.Load() != 1 {
			t.Errorf("%s: %d requests", c.reply, requests.Load())
		}
	}
	_, err := open(t, `exec:/proc/self/exe say '{"request":7,"scores":[1]}'`, Options{}).Score(t.Context(), samples(1))
	if kindOf(t, err) != KindReply || !strings.Contains(err.Error(), "request 7") {
		t.Errorf("a reply to another request: got %v, want an error with request 7", err)
	}
	_, err = open(t, "exec:/proc/self/exe big", Options{MaxReply: 5000}).Score(t.Context(), samples(1))
	if kindOf(t, err) != KindReply || !strings.Contains(err.Error(), "5000 bytes") {
		t.Errorf("a reply that is too large: got %v, want an error with 5000 bytes", err)
	}
}

func TestServerFailures(t *testing.T) {
	for name, c := range map[string]struct {
		handle   http.HandlerFunc
		kind     Kind
		requests int32
	}{
		"status 500": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom", 500) }, KindStatus, 2},
		"status 404": {http.NotFound, KindReply, 1},
		"redirect":   {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, KindReply, 1},
		"empty":      {func(http.ResponseWriter, *http.Request) {}, KindReply, 1},
		"too large":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 9000)) }, KindReply, 1},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "50")
			fmt.Fprint(w, "{")
		}, KindCrashed, 2},
		"hangs up":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, KindUnreachable, 2},
		"answers once": {nil, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n := requests.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				switch {
				case c.handle != nil:
					c.handle(w, r)
				case n == 1:
					http.Error(w, "not yet", http.StatusServiceUnavailable)
				default:
					fmt.Fprint(w, `{"scores":[4]}`)
				}
			})
			got, err := open(t, url, Options{MaxReply: 5000}).Score(t.Context(), samples(1))
			if c.kind == "" {
				if err != nil || got[0].Value != 4 {
					t.Errorf("%v, %v", got, err)
				}
			} else if kindOf(t, err) != c.kind {
				t.Errorf("%v, want %s", err, c.kind)
			}
			if requests.Load() != c.requests {
				t.Errorf("%d requests, want %d", requests.Load(), c.requests)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	s := httptest.NewServer(nil)
	url := s.URL
	s.Close()
	if _, err := open(t, url, Options{}).Score(t.Context(), samples(1)); kindOf(t, err) != KindUnreachable {
		t.Error(err)
	}
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"here": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	// Open resolves the name of a program like exec.Cmd: relative to Options.Dir.
	open(t, "exec:./here", Options{Dir: dir})
	for _, fn := range []string{"exec:/no/such/program", "exec:no-such-program-anywhere my.py", "exec:./there", "exec:./text", "exec:" + dir, "exec:here"} {
		_, err := Open(fn, Options{Dir: dir})
		if kindOf(t, err) != KindUnreachable || !strings.Contains(err.Error(), fn) {
			t.Errorf("%s: %v", fn, err)
		}
	}
	if _, err := Open("exec:gone x.py", Options{}); err == nil || !strings.Contains(err.Error(), "install") {
		t.Errorf("a missing program: %v", err)
	}
	for _, fn := range []string{"exec:", "exec: 'open", "ftp://x", "math"} {
		if _, err := Open(fn, Options{}); err == nil {
			t.Errorf("Open(%q): no error", fn)
		}
	}
}

// TestStart checks that programs can be started before the first batch, and the error if a program ends before it.
func TestStart(t *testing.T) {
	for fn, want := range map[string]string{
		"exec:sh gone.sh":      "gone.sh",
		"exec:sh -c 'exit 3'":  "before the first request (exit status 3)",
		"exec:sh -c 'read x'":  "",
		"http://127.0.0.1:1/x": "",
	} {
		p, ok := open(t, fn, Options{Dir: t.TempDir()}).(Starter)
		if !ok {
			t.Fatalf("%s is not a Starter", fn)
		}
		for range 2 { // at the second call the program is running, or is started again
			err := p.Start(t.Context())
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || kindOf(t, err) != KindCrashed) {
				t.Errorf("%s: %v, want %q", fn, err, want)
			}
		}
	}
}

func TestTimeout(t *testing.T) {
	hang := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	for _, fn := range []string{hang, "exec:/proc/self/exe hang"} {
		for name, shown := range map[string]string{"": "reward.score_timeout_s", "--timeout": "--timeout"} {
			_, err := open(t, fn, Options{Timeout: 50 * time.Millisecond, TimeoutName: name}).Score(t.Context(), samples(1))
			if kindOf(t, err) != KindTimeout {
				t.Errorf("%v, want %s", err, KindTimeout)
			}
			for _, want := range []string{fn, "50ms (" + shown + ")"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v lacks %q", err, want)
				}
			}
		}
	}
	if e := (&Error{Fn: "f", Kind: KindTimeout, Err: errors.New("no reply"), Stderr: "loading"}); !strings.Contains(e.Error(), "loading") {
		t.Errorf("%v lacks the standard error", e)
	}
}

func TestCancelled(t *testing.T) {
	cause := errors.New("interrupted")
	received := make(chan struct{}, 4)
	hang := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		received <- struct{}{}
		<-r.Context().Done()
	})
	dir := t.TempDir()
	for _, fn := range []string{hang, "exec:/proc/self/exe family " + dir} {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			if fn == hang {
				<-received
			} else {
				eventually(t, "the program is running", func() bool { _, err := os.Stat(filepath.Join(dir, "child")); return err == nil })
			}
			cancel(cause)
		}()
		if _, err := open(t, fn, Options{}).Score(ctx, samples(1)); !errors.Is(err, cause) {
			t.Errorf("%s: %v", fn, err)
		}
	}
	// The program and its child have exited.
	for _, name := range []string{"child", "grandchild"} {
		eventually(t, name+" has exited", func() bool { return !alive(t, filepath.Join(dir, name)) })
	}
}

func TestCrashedProgram(t *testing.T) {
	_, err := open(t, "exec:/proc/self/exe fail", Options{}).Score(t.Context(), samples(1))
	if kindOf(t, err) != KindCrashed {
		t.Error(err)
	}
	for _, want := range []string{"exit status 3", "ModuleNotFoundError"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	s := open(t, "exec:/proc/self/exe once "+filepath.Join(t.TempDir(), "started"), Options{})
	if got, err := s.Score(t.Context(), samples(1)); err != nil || got[0].Value != 1 {
		t.Errorf("after the restart: %v, %v", got, err)
	}
}

// TestNoOrphans checks that a program dies when the process that started it is killed.
func TestNoOrphans(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	host := exec.Command("/proc/self/exe", "host", file)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program is running", func() bool { _, err := os.Stat(file); return err == nil })
	if !alive(t, file) {
		t.Error("the program is not running")
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	eventually(t, "the program has exited", func() bool { return !alive(t, file) })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 6000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("condition not reached: %s", what)
}

// alive reports whether the process with the id in a file exists and is not a zombie.
func alive(t *testing.T, file string) bool {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return false
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		t.Error(err)
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

func TestSplitCommand(t *testing.T) {
	for in, want := range map[string][]string{
		"python3 my.py --x=1":       {"python3", "my.py", "--x=1"},
		`  a "b c" 'd "e' f\ g "" `: {"a", "b c", `d "e`, "f g", ""},
		`"a\"b" 'c\d' x'y'z`:        {`a"b`, `c\d`, "xyz"},
	} {
		got, err := splitCommand(in)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v %s", in, err, d)
		}
	}
	for _, in := range []string{"", "  ", "'a", `a\`} {
		if got, err := splitCommand(in); err == nil {
			t.Errorf("%q: %q, want an error", in, got)
		}
	}
}
