package fault

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got, err := Parse("500:0.05,hang:0.01, slow:200ms,slow:2s:0.1,truncate:0.01,reset:0.02,duplicate:0.5,seed=7")
	if err != nil {
		t.Fatal(err)
	}
	want := Plan{seed: 7, rules: []rule{
		{kind: "500", status: 500, p: 0.05},
		{kind: hang, p: 0.01},
		{kind: slow, p: 1, pause: 200 * time.Millisecond},
		{kind: slow, p: 0.1, pause: 2 * time.Second},
		{kind: truncate, p: 0.01},
		{kind: reset, p: 0.02},
		{kind: duplicate, p: 0.5},
	}}
	if diff := cmp.Diff(want, *got, cmp.AllowUnexported(Plan{}, rule{})); diff != "" {
		t.Error(diff)
	}
	if f, err := Parse(" "); err != nil || len(f.rules) != 0 {
		t.Errorf("Parse of an empty list returned %+v, %v", f, err)
	}
	for spec, words := range map[string]string{
		"500":             "probability",
		"500:":            "probability",
		"500:1.5":         "probability",
		"500:NaN":         "probability",
		"hang:-0.1":       "probability",
		"hang":            "probability",
		"200:0.5":         "400 to 599",
		"600:0.5":         "400 to 599",
		"slow":            "slow:DURATION",
		"slow:200":        "slow:DURATION",
		"slow:-1s":        "slow:DURATION",
		"slow:1s:2":       "probability",
		"duplicate:2":     "probability",
		"seed=x":          "seed",
		"seed=-1":         "seed",
		"explode:1":       "unknown fault",
		"hang:0.1,":       "empty",
		"hang:0.1;500:1":  "probability",
		",":               "empty",
		"truncate:0.1:5":  "probability",
		"seed:7":          "unknown fault",
		"hang:0.1,flap:1": `"flap:1"`,
	} {
		if f, err := Parse(spec); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %+v, %v; want %q", spec, f, err, words)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "500:0.05,hang:0.01,slow:200ms,seed=7", "slow:1s:0.5", "reset:1,truncate:0", "seed=18446744073709551615", "::,", "slow:9999999h:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		faults, err := Parse(s)
		if err != nil {
			return
		}
		for _, r := range faults.rules {
			if !(r.p >= 0 && r.p <= 1) || r.pause < 0 || r.status != 0 && (r.status < 400 || r.status > 599) {
				t.Errorf("%q gave %+v", s, r)
			}
		}
	})
}

// TestFaultDraws checks the frequency of faults. It checks that a seed determines the draws, and that the draws of one
// rule do not depend on the probability of another rule.
func TestFaultDraws(t *testing.T) {
	draws := func(spec string) string {
		f, err := Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(f.seed, 0))
		var b strings.Builder
		for range 2000 {
			pause, strike := f.draw(rng, false)
			switch {
			case strike != nil:
				b.WriteByte('x')
			case pause > 0:
				b.WriteByte('s')
			default:
				b.WriteByte('.')
			}
		}
		return b.String()
	}
	a := draws("500:0.25,slow:1s:0.5,seed=3")
	if a != draws("500:0.25,slow:1s:0.5,seed=3") {
		t.Error("two draws with the same seed differ")
	}
	if a == draws("500:0.25,slow:1s:0.5,seed=4") {
		t.Error("draws with different seeds are equal")
	}
	if n := strings.Count(a, "x"); n < 400 || n > 600 {
		t.Errorf("500:0.25 was drawn %d of 2000 times, want 400 to 600", n)
	}
	withoutPauses := draws("500:0.25,slow:1s:0,seed=3")
	if strings.ReplaceAll(a, "s", ".") != withoutPauses || !strings.Contains(a, "s") {
		t.Error("the probability of slow changed the draws of 500")
	}
}

func TestFaultsOnTheWire(t *testing.T) {
	get := func(t *testing.T, spec, path string, client *http.Client) (string, error) {
		t.Helper()
		f, err := Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(New(http.HandlerFunc(sendReply), f, nil))
		defer srv.Close()
		client.Transport = &http.Transport{DisableKeepAlives: true}
		resp, err := client.Get(srv.URL + path)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return fmt.Sprintf("%d %s", resp.StatusCode, body), err
	}
	const path = "/maze/available_actions"
	const intact = "200 " + reply
	t.Run("none", func(t *testing.T) {
		if got, err := get(t, "", path, &http.Client{}); err != nil || got != intact {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("status", func(t *testing.T) {
		if got, err := get(t, "500:1,hang:1", path, &http.Client{}); err != nil || got != "500 Internal Server Error" {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("slow", func(t *testing.T) {
		if got, err := get(t, "slow:1ms,slow:1ms", path, &http.Client{}); err != nil || got != intact {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("slower than the client", func(t *testing.T) {
		_, err := get(t, "slow:1h", path, &http.Client{Timeout: 50 * time.Millisecond})
		var timeout interface{ Timeout() bool }
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Error(err)
		}
	})
	t.Run("hang", func(t *testing.T) {
		_, err := get(t, "hang:1", path, &http.Client{Timeout: 50 * time.Millisecond})
		var timeout interface{ Timeout() bool }
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Error(err)
		}
	})
	t.Run("truncate", func(t *testing.T) {
		got, err := get(t, "truncate:1", path, &http.Client{})
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(intact, got) || len(got) < 10 {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("reset", func(t *testing.T) {
		if got, err := get(t, "reset:1", path, &http.Client{}); err == nil {
			t.Error(got)
		}
	})
	t.Run("health check and description get no faults", func(t *testing.T) {
		for _, path := range []string{"/", "/openapi.json"} {
			if got, err := get(t, "500:1", path, &http.Client{}); err != nil || got != intact {
				t.Errorf("%s: %s, %v", path, got, err)
			}
		}
	})
}

const reply = `["move left","move right","move up","move down"]`

func sendReply(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, reply)
}

// TestDuplicate checks that the server receives a create or reset twice with the same body, and a step once. The client
// gets the second reply.
func TestDuplicate(t *testing.T) {
	plan, err := Parse("duplicate:1")
	if err != nil {
		t.Fatal(err)
	}
	arrived := map[string][]string{}
	var observed []string
	srv := httptest.NewServer(New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		arrived[r.URL.Path] = append(arrived[r.URL.Path], string(body))
		fmt.Fprint(w, len(arrived[r.URL.Path]))
	}), plan, func(r *http.Request, kind string, _ time.Duration) { observed = append(observed, kind+" "+r.URL.Path) }))
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/maze/create": "2", "/reset": "2", "/step": "1"} {
		resp, err := client.Post(srv.URL+path, "application/json", strings.NewReader("{"+path+"}"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("reply to %s: %s (%v), want %s", path, got, err, want)
		}
		if (resp.Header.Get(Header) == "duplicate") != (want == "2") {
			t.Errorf("%s has the header %q", path, resp.Header.Get(Header))
		}
	}
	want := map[string][]string{"/maze/create": {"{/maze/create}", "{/maze/create}"}, "/reset": {"{/reset}", "{/reset}"}, "/step": {"{/step}"}}
	if diff := cmp.Diff(want, arrived); diff != "" {
		t.Error(diff)
	}
	slices.Sort(observed)
	if diff := cmp.Diff([]string{"duplicate /maze/create", "duplicate /reset"}, observed); diff != "" {
		t.Error(diff)
	}
}

// TestHangEndsWithItsClient checks that the handler of a hanging request returns when the client disconnects. The
// request has a body: net/http notices that the client disconnects only after it has read the body.
func TestHangEndsWithItsClient(t *testing.T) {
	plan, err := Parse("hang:1")
	if err != nil {
		t.Fatal(err)
	}
	h := New(http.HandlerFunc(sendReply), plan, nil)
	ended := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	client := &http.Client{Timeout: 50 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	if resp, err := client.Post(srv.URL+"/step", "application/json", strings.NewReader("{}")); err == nil {
		resp.Body.Close()
		t.Error("the request got a reply")
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the handler did not return within a minute")
	}
}
