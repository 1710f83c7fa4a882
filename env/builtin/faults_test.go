package builtin

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseFaults(t *testing.T) {
	got, err := ParseFaults("500:0.05,hang:0.01, slow:200ms,slow:2s:0.1,truncate:0.01,reset:0.02,seed=7")
	if err != nil {
		t.Fatal(err)
	}
	want := Faults{seed: 7, rules: []faultRule{
		{kind: faultStatus, status: 500, p: 0.05},
		{kind: faultHang, p: 0.01},
		{kind: faultSlow, p: 1, pause: 200 * time.Millisecond},
		{kind: faultSlow, p: 0.1, pause: 2 * time.Second},
		{kind: faultTruncate, p: 0.01},
		{kind: faultReset, p: 0.02},
	}}
	if diff := cmp.Diff(want, *got, cmp.AllowUnexported(Faults{}, faultRule{})); diff != "" {
		t.Error(diff)
	}
	if f, err := ParseFaults(" "); err != nil || len(f.rules) != 0 {
		t.Errorf("nothing: %+v, %v", f, err)
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
		"seed=x":          "seed",
		"seed=-1":         "seed",
		"explode:1":       "no such fault",
		"hang:0.1,":       "empty",
		"hang:0.1;500:1":  "probability",
		",":               "empty",
		"truncate:0.1:5":  "probability",
		"seed:7":          "no such fault",
		"hang:0.1,flap:1": `"flap:1"`,
	} {
		if f, err := ParseFaults(spec); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %+v, %v; want %q", spec, f, err, words)
		}
	}
}

func FuzzParseFaults(f *testing.F) {
	for _, s := range []string{"", "500:0.05,hang:0.01,slow:200ms,seed=7", "slow:1s:0.5", "reset:1,truncate:0", "seed=18446744073709551615", "::,", "slow:9999999h:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		faults, err := ParseFaults(s)
		if err != nil {
			return
		}
		for _, r := range faults.rules {
			if !(r.p >= 0 && r.p <= 1) || r.pause < 0 || r.kind == faultStatus && (r.status < 400 || r.status > 599) {
				t.Errorf("%q gave %+v", s, r)
			}
		}
	})
}

// Faults strike as often as they should, the same ones for the same seed, and
// one rule's draws do not move another's.
func TestFaultDraws(t *testing.T) {
	draws := func(spec string) string {
		f, err := ParseFaults(spec)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(f.seed, 0))
		var b strings.Builder
		for range 2000 {
			pause, strike := f.draw(rng)
			switch {
			case strike != nil:
				fmt.Fprint(&b, int(strike.kind))
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
		t.Error("the same seed gave other faults")
	}
	if a == draws("500:0.25,slow:1s:0.5,seed=4") {
		t.Error("another seed gave the same faults")
	}
	if n := strings.Count(a, "0"); n < 400 || n > 600 {
		t.Errorf("500:0.25 struck %d of 2000 times", n)
	}
	quiet := strings.NewReplacer("0", ".", "s", ".").Replace
	if n := strings.Count(draws("500:0.25,slow:1s:0,seed=3"), "0"); n != strings.Count(a, "0") || quiet(a) == a {
		t.Error("another rule's probability moved this one's draws")
	}
}

func TestFaultsOnTheWire(t *testing.T) {
	get := func(t *testing.T, spec, path string, client *http.Client) (string, error) {
		t.Helper()
		f, err := ParseFaults(spec)
		if err != nil {
			t.Fatal(err)
		}
		h, err := New("maze", Options{Faults: f})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(h)
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
	const whole = `200 ["move left","move right","move up","move down"]`
	t.Run("none", func(t *testing.T) {
		if got, err := get(t, "", path, &http.Client{}); err != nil || got != whole {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("status", func(t *testing.T) {
		if got, err := get(t, "500:1,hang:1", path, &http.Client{}); err != nil || got != "500 Internal Server Error" {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("slow", func(t *testing.T) {
		if got, err := get(t, "slow:1ms,slow:1ms", path, &http.Client{}); err != nil || got != whole {
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
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(whole, got) || len(got) < 10 {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("reset", func(t *testing.T) {
		if got, err := get(t, "reset:1", path, &http.Client{}); err == nil {
			t.Error(got)
		}
	})
	t.Run("the greeting is spared", func(t *testing.T) {
		if got, err := get(t, "hang:1", "/", &http.Client{}); err != nil || got != `200 "This is environment LMRL-Gym."` {
			t.Errorf("%s, %v", got, err)
		}
	})
}

func FuzzParseBook(f *testing.F) {
	for _, s := range []string{"", "1 a = 1 b", "4 oak planks [planks] = 1 oak log\n1 x = 2 [planks]", "1 a [g] = 1 b\n1 b = 1 [g]", "# x\n1 a = 1 [b]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBook(s)
		if err != nil || b.Len() > 50 {
			return
		}
		for i := range b.Len() {
			if b.Depth(i) < 1 || b.Goal(i) == "" || len(b.Commands(i)) == 0 {
				t.Errorf("%q: task %d is %q at depth %d", s, i, b.Goal(i), b.Depth(i))
			}
		}
	})
}

func FuzzParseMinecraft(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"type":"minecraft:crafting_shapeless","ingredients":[{"item":"a"}],"result":"b"}`,
		`{"type":"minecraft:crafting_shaped","pattern":["#"],"key":{"#":{"tag":"t"}},"result":{"item":"b","count":2}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, ok, err := parseMinecraft(text)
		if ok && err == nil && (r.item == "" || r.count < 1 || len(r.in) == 0) {
			t.Errorf("%s gave %+v", text, r)
		}
	})
}

// No action brings a game down, and counts never go below zero.
func FuzzTextcraftAction(f *testing.F) {
	for _, s := range []string{"", "get 3 oak log", "craft 4 oak planks using 1 oak log", "craft using ", "craft  using ,", "inventory", "get 0 sand", "craft x using 0 sand, 1 sand"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, action string) {
		c := crafter{book: OwnBook(), goal: OwnBook().goal(0), held: map[string]int64{}}
		c.act("get 5 oak log")
		c.act("get 0 sand")
		text, _ := c.act(action)
		again, _ := c.act(action)
		if text == "" || again == "" {
			t.Errorf("%q has no answer", action)
		}
		if len(c.names) != len(c.held) {
			t.Errorf("%q: %d names, %d counts", action, len(c.names), len(c.held))
		}
		for id, n := range c.held {
			if n < 0 {
				t.Errorf("%q: %d of %s", action, n, id)
			}
		}
	})
}
