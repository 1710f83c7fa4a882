package pool

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/envtest"
)

// TestCheckFindsOtherEnvironments checks that Check, which a run calls first, finds a server of another environment
// before any episode is played.
func TestCheckFindsOtherEnvironments(t *testing.T) {
	// solutions.json contains the lists of tools of AgentGym's tool servers: see env/check/recorded/record.py.
	b, err := os.ReadFile("../check/recorded/solutions.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded map[string]struct{ Tools string }
	if err := json.Unmarshal(b, &recorded); err != nil {
		t.Fatal(err)
	}
	tools := []string{"weather", "movie", "academia", "todo", "sheet"}
	server := func(t *testing.T, lists string) *envtest.Script {
		step, err := json.Marshal(map[string]any{"observation": lists, "reward": 0, "done": false})
		if err != nil {
			t.Fatal(err)
		}
		return envtest.New(t, map[string][]envtest.Reply{"GET /": envtest.OK(`"ok"`), "POST /create": envtest.OK("0"), "POST /step": envtest.OK(string(step))})
	}
	pool := func(t *testing.T, name, url string) *Pool {
		p, err := New(lookup(name), []string{url}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(t.Context()); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		})
		return p
	}
	for _, is := range tools {
		for _, name := range tools {
			t.Run(is+" as "+name, func(t *testing.T) {
				s := server(t, recorded[is].Tools)
				if name == "sheet" { // a sheet server takes 40 s to list its tools
					first := `{"observation":"Observation: Please open a sheet before operating it\nGive me one action.","reward":0,"done":false}`
					if is != name {
						first = `{"observation":"Observation: ERROR | Invalid action: get_all_values.\nGive me one action.","reward":0,"done":false}`
					}
					s.Replies["POST /step"] = append(envtest.OK(first), s.Replies["POST /step"]...)
				}
				err := pool(t, name, s.URL).Check(t.Context())
				var other *env.OtherEnvError
				switch {
				case is == name && err != nil:
					t.Error(err)
				case is != name && (!errors.As(err, &other) || other.Other != is || other.Env != name || other.Server != s.URL):
					t.Errorf("%v", err)
				}
				if asked := strings.Join(s.Requests(), "\n"); is == "sheet" && name == is && strings.Contains(asked, "check_valid_actions") {
					t.Errorf("the slow list of tools was requested: %q", s.Requests())
				}
				if slices.ContainsFunc(s.Requests(), func(r string) bool { return strings.HasPrefix(r, "POST /reset") }) {
					t.Errorf("an episode was started: %q", s.Requests())
				}
			})
		}
	}
	t.Run("unknown tools", func(t *testing.T) {
		for _, lists := range []string{"Observation: ERROR | Invalid action: check_valid_actions.", "You can use ['finish', 'own_tool']", "["} {
			if err := pool(t, "weather", server(t, lists).URL).Check(t.Context()); err != nil {
				t.Errorf("%q: %v", lists, err)
			}
		}
	})
	t.Run("once for a server", func(t *testing.T) {
		s := server(t, recorded["weather"].Tools)
		p := pool(t, "weather", s.URL)
		if err := p.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			l, err := p.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			var made []string
			l.Record(func(x data.Exchange) { made = append(made, x.Path) })
			for _, x := range l.Created() {
				made = append(made, x.Path)
			}
			if !slices.Equal(made, []string{"/create"}) {
				t.Errorf("the lease's exchanges are %q, want only the create", made)
			}
			s.Replies["POST /create"] = envtest.OK(map[string]string{"0": "1", "1": "2"}[l.slot.id])
		}
		if n := strings.Count(strings.Join(s.Requests(), "\n"), "check_valid_actions"); n != 1 {
			t.Errorf("%d requests for the list of tools, want 1: %q", n, s.Requests())
		}
	})
	t.Run("no answer", func(t *testing.T) { // a server that does not answer is identified once, not for every instance
		s := envtest.New(t, map[string][]envtest.Reply{
			"GET /": envtest.OK(`"ok"`), "POST /create": {{Body: "0"}, {Body: "1"}, {Body: "2"}}, "POST /step": {{Status: 500, Body: "Internal Server Error"}},
		})
		p := pool(t, "weather", s.URL)
		if err := p.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			l, err := p.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
		}
		if n := strings.Count(strings.Join(s.Requests(), "\n"), "check_valid_actions"); n != identifyTries {
			t.Errorf("the number of requests for the list of tools is %d, want identifyTries: %q", n, s.Requests())
		}
	})
	t.Run("later", func(t *testing.T) { // the server starts after the check
		_, err := pool(t, "weather", server(t, recorded["movie"].Tools).URL).Acquire(t.Context())
		if other := (*env.OtherEnvError)(nil); !errors.As(err, &other) {
			t.Errorf("%v", err)
		}
	})
	t.Run("greetings", func(t *testing.T) {
		for _, tt := range []struct {
			name, greeting, other string
		}{
			{"textcraft", `"This is environment BabyAI."`, "babyai"},
			{"maze", `"This is environment LMRL-Gym."`, ""},
			{"babyai", "This is environment LMRL-Gym.\n", "maze or wordle"},
			{"textcraft", `"hello"`, ""},
			{"textcraft", `"ok"`, ""},
			{"webshop", `"This is environment TextCraft."`, "textcraft"},
			{"gaia", `"This is environment TextCraft."`, ""}, // the pool does not know the greeting of gaia
		} {
			s := envtest.New(t, map[string][]envtest.Reply{"GET /": envtest.OK(tt.greeting)})
			err := pool(t, tt.name, s.URL).Check(t.Context())
			var other *env.OtherEnvError
			if tt.other == "" && err != nil || tt.other != "" && (!errors.As(err, &other) || other.Other != tt.other) {
				t.Errorf("%s with the greeting %s: %v", tt.name, tt.greeting, err)
			}
		}
	})
}
